"""Programs as users of libraries write them, on the device as on the CPU."""

import pytest

from tests.python.libraries import programs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("one", programs.load(), ids=lambda one: one.name)
def test_program(one, device):
    if one.missing:
        pytest.skip(f"not installed: {' '.join(one.missing)}")
    report = programs.check(one, device)
    assert not report.failures, "\n".join(report.failures)
    assert not report.fallbacks, f"ran on the CPU: {report.fallbacks}"


def test_a_wrong_result_is_seen():
    import torch

    right = torch.ones(3)
    wrong = programs.Program("wrong", "", lambda d: [right.to(d) + (d != "cpu") * 1e-3], 1000, ())
    elsewhere = programs.Program("elsewhere", "", lambda d: [right], 1000, ())
    assert "differs" in programs.check(wrong).failures[0] and "is on cpu" in programs.check(elsewhere).failures[0]
