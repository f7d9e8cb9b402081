"""A seeded sample of the conformance suite, and every check that failed once.

The whole suite: python -m tests.python.conformance.
"""

import random
import warnings
from pathlib import Path

import pytest
import torch

from conformance import cases, gaps, worker

SAMPLE, SEED = 10, 2026
REGRESSIONS = [
    tuple(line.split())
    for line in (Path(__file__).parent / "conformance" / "regressions.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.fixture(autouse=True)
def quietly():
    policy = torch.ocl.fallback_policy()
    torch.ocl.set_fallback_policy("silent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.ocl.set_fallback_policy(policy)


@pytest.fixture(scope="module")
def sample():
    # Sorted: the database's own order differs between releases of PyTorch.
    return random.Random(SEED).sample(sorted(map(str, cases.all_cases())), SAMPLE)


@pytest.mark.parametrize("index", range(SAMPLE))
def test_sampled_case(sample, index):
    case = cases.parse(sample[index])
    record = {"case": str(case), "checks": {name: worker.run_check(case, name) for name in worker.checks_of(case)[0]}}
    unlisted, stale = gaps.judge([record], gaps.read())
    assert not unlisted
    assert not [text for text in stale if text.startswith(str(case))]


@pytest.mark.parametrize(("case", "check"), REGRESSIONS)
def test_failed_once(case, check):
    result = worker.run_check(cases.parse(case), check)
    assert result["status"] == "pass", result
