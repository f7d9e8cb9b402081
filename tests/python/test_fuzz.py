"""A seeded share of the random programs of tests/python/fuzz.

All of them: python -m tests.python.fuzz --cases 20000.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.python.fuzz.check import check
from tests.python.fuzz.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_random_programs(family):
    # the same programs in every run: hypothesis derives them from the name of the function
    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(FAMILIES[family]())
    def run(program):
        check(program)

    run()
