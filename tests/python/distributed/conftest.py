import pytest
import torch.distributed as dist

from distributed.ranks import Ranks


@pytest.fixture(scope="session")
def pair():
    """Two ranks in the group that init_process_group() makes when nobody asks for a backend."""
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    ranks = Ranks()
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def staged():
    """Two ranks that do as if the device shared no memory with the host."""
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    ranks = Ranks(environment={"TORCH_OCL_UNIFIED_MEMORY": "0"})
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def four():
    """Four ranks."""
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    ranks = Ranks(4)
    yield ranks
    ranks.close()
