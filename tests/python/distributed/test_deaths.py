"""A rank that is killed at a random moment: deaths.py has more of them."""

import pytest
import torch.distributed as dist

from distributed import deaths

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no torch.distributed with Gloo"
)


# Early and late in a step; the one that dies has the store or not; the others destroy their group or just end.
@pytest.mark.parametrize(
    ("kind", "ranks", "seed"),
    [("data_parallel", 2, 101), ("data_parallel", 3, 108), ("collectives", 2, 108), ("collectives", 3, 106)],
)
def test_death(device, kind, ranks, seed):
    death = deaths.Death.draw(seed, kind, ranks)
    found = deaths.happen(death)  # raises when an exception does not come in time, or a process does not end by it
    assert len(found) == ranks - 1, death
