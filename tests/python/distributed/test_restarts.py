"""Restarts by torchrun."""

import re
import threading
import uuid
from datetime import timedelta

import pytest
import torch.distributed as dist

from conftest import ROOT
from distributed.launch import torchrun
from torch_ocl import _restarts

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no torch.distributed with Gloo"
)


def test_training_goes_on_from_its_checkpoint(tmp_path):
    arguments = (tmp_path / "checkpoints", "--steps", "12", "--dies-at", "8")
    done = torchrun(
        ROOT / "examples" / "elastic.py",
        *map(str, arguments),
        options=("--max-restarts", "2"),
        seconds=480,
        TORCH_OCL_FALLBACK="error",
    )
    assert done.returncode == 0, done.stderr
    begins = re.findall(r"run (\d) begins with step (\d+)", done.stdout)
    assert begins == [("1", "0"), ("2", "5")], done.stdout
    assert "agree:" in done.stdout, done.stdout  # not DISAGREE


def agreed(store, size, seconds=60):
    """What `size` ranks, a thread each, find under one key that rank 0 writes."""
    found = {}

    def rank_does(rank):
        own = _restarts.own_keys(store, rank, size, timedelta(seconds=seconds))
        if rank == 0:
            own.set("key", uuid.uuid4().hex)
        found[rank] = own.get("key").decode()

    threads = [threading.Thread(target=rank_does, args=(rank,)) for rank in reversed(range(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("size", [1, 4])
def test_each_restart_has_keys_of_its_own(size):
    store = dist.HashStore()
    seen = set()
    for _ in range(3):
        found = agreed(store, size)
        assert len(found) == size
        assert len(set(found.values())) == 1
        seen |= set(found.values())
    assert len(seen) == 3


def test_what_a_restart_has_left_is_no_answer():
    """A rank died in the middle of asking: the next ranks neither take its question nor its answer."""
    store = dist.HashStore()
    agreed(store, 3)
    store.set(f"{_restarts.PREFIX}/question 2", "stale")
    assert len(set(agreed(store, 3).values())) == 1


def test_a_rank_that_is_missing_is_an_error_after_the_timeout():
    for rank in (0, 1):
        with pytest.raises(dist.DistStoreError, match=f"rank {rank} of 2"):
            _restarts.own_keys(dist.HashStore(), rank, 2, timedelta(seconds=0.1))


def test_only_where_torchrun_may_restart(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.delenv("TORCHELASTIC_MAX_RESTARTS", raising=False)
    assert not _restarts.may_restart()
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert not _restarts.may_restart()
    for restarts, expected in (("0", False), ("2", True)):
        monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", restarts)
        assert _restarts.may_restart() is expected
