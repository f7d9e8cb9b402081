"""A part of PyTorch's own tests of collectives; all of them: python -m tests.python.distributed.pytorch_suite."""

import pytest
import torch.distributed as dist

from distributed import pytorch_suite

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no torch.distributed with Gloo"
)
SAMPLE = [
    "test_all_gather_into_cat_tensor_cuda",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_sum_cuda_async",
    "test_all_to_all_single_unequal_split_cuda",
    "test_broadcast_cuda",
    "test_get_future",
]


@pytest.fixture(scope="module")
def suite():
    ranks = pytorch_suite.Suite(2)
    yield ranks
    ranks.close()


@pytest.mark.parametrize("name", SAMPLE)
def test_of_pytorch(device, suite, name):
    if name not in pytorch_suite.names_of_tests():
        pytest.skip("this PyTorch has no such test")
    passed, said = suite.run(name)
    assert passed, said
    assert said == "passed"  # and did not skip itself


def test_gaps_are_tests():
    known = pytorch_suite.gaps()
    assert known
    assert all(reason for reason in known.values())
