"""The part of the conformance suite whose turn it is, and every check that failed once.

Each day has another part; all parts in a row are the whole suite, which is python -m tests.python.conformance, except
what a slow machine skips. The header of each run says which one it is, and `pytest --turn N` repeats it.
"""

import time
import warnings
from pathlib import Path

import pytest
import torch

from conformance import cases, gaps, support_table, worker

SAMPLE, SECONDS = 60, 60  # cases of a turn, and the time of one process after which it leaves out the rest
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
def sample(request):
    return cases.turn(map(str, cases.all_cases()), request.config.turn, SAMPLE)


spent = 0.0


@pytest.mark.parametrize("index", range(SAMPLE))
def test_case_whose_turn_it_is(sample, index):
    global spent
    if spent > SECONDS:
        pytest.skip(f"{SECONDS} s were spent on cases before {sample[index]}")
    started = time.monotonic()
    case = cases.parse(sample[index])
    record = {"case": str(case), "checks": {name: worker.run_check(case, name) for name in worker.checks_of(case)[0]}}
    spent += time.monotonic() - started
    unlisted, stale = gaps.judge([record], gaps.read())
    assert not unlisted
    assert not [text for text in stale if text.startswith(str(case))]


@pytest.mark.parametrize("size", [1, 7, 60, 200])
def test_turns_cover_every_case(size):
    names = [f"case {i}" for i in range(100)]
    for first in (0, 3, 20000):
        turns = [cases.turn(names, first + i, size) for i in range(-(-len(names) // size))]
        assert all(len(part) == size for part in turns) and set().union(*turns) == set(names)
    assert cases.turn(reversed(names), 5, size) == cases.turn(names, 5, size)


@pytest.mark.parametrize(("case", "check"), REGRESSIONS)
def test_failed_once(case, check):
    result = worker.run_check(cases.parse(case), check)
    assert result["status"] == "pass", result


def test_a_part_of_the_sweep_writes_its_rows_only():
    """The page keeps what a partial report does not know, and its counts follow the rows."""
    page = (
        "# Operators\n\n885 ATen overloads have a kernel; 1 of 2 run without the CPU (forward), 1 of 1 backward.\n\n"
        "| operator | forward | backward | dtypes | gaps |\n|---|---|---|---|---|\n"
        "| add | native | native | f32 | out |\n| zeta | `zeta` | - | *f32* |  |\n"
    )
    checks = {"values": {"status": "pass", "fallbacks": []}, "gradient": {"status": "pass", "fallbacks": ["aten::mul"]}}
    written = support_table.updated(page, [{"case": "op_db/mul/float32", "checks": checks}])
    assert written.splitlines()[-3:] == [
        "| add | native | native | f32 | out |",
        "| mul | native | `mul` | f32 |  |",
        "| zeta | `zeta` | - | *f32* |  |",
    ]
    assert "2 of 3 run without the CPU (forward), 1 of 2 backward" in written and "885" not in written
