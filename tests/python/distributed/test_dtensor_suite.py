"""Some operators on DTensors; all of them: python -m tests.python.distributed.dtensor_suite."""

import pytest
import torch.distributed as dist

from distributed import dtensor_suite

SAMPLE = ["add", "cat", "matmul", "nn.functional.scaled_dot_product_attention", "sort", "t"]


@pytest.mark.parametrize("name", SAMPLE)
def test_operator(pair, name):
    found = pair(dtensor_suite.run_operator, name, 2)
    for counts, failures in found:
        assert not failures
        assert counts["equal"] >= 5


def test_gaps_are_operators():
    if dist.is_available():
        known = dtensor_suite.gaps()
        assert known and all(known.values())
        assert set(known) <= set(dtensor_suite.operators())
