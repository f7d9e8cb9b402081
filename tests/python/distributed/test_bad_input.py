"""Mistakes: every one is an exception, and where no data travelled the group goes on."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist


def check_ranks(rank, size):
    x = torch.ones(4, device="ocl")
    for wrong in (size, size + 7, -3):
        for call in (dist.broadcast, dist.reduce):
            with pytest.raises(RuntimeError, match=f"invalid root rank: {wrong}"):
                call(x, wrong)
        for call in (dist.isend, dist.irecv, dist.send, dist.recv):
            with pytest.raises(ValueError, match=f"invalid rank: {wrong}"):
                call(x, wrong)
    with pytest.raises(ValueError, match="should not be the same as the rank"):
        dist.send(x, rank)
    alone = dist.new_group([0])
    if rank == 0:
        with pytest.raises(ValueError, match="not part of group"):
            dist.broadcast(x, 1, group=alone)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 4


def test_ranks_that_are_none(pair):
    pair(check_ranks)


def check_kinds(rank, size):
    x = torch.ones(4, device="ocl")
    double = {"dtype": torch.float64, "device": "ocl"}
    with pytest.raises(RuntimeError, match="same type"):
        dist.all_gather_into_tensor(torch.ones(4 * size, **double), x)
    with pytest.raises(RuntimeError, match="same type"):
        dist.reduce_scatter_tensor(torch.ones(4 // size, **double), x)
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([torch.ones(4, **double)] * size, x)
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_to_all_single(torch.ones(4, **double), x)
    with pytest.raises(ValueError, match="Incorrect input list size"):
        dist.all_gather([], x)
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        dist.all_reduce([1.0, 2.0])
    # The other tensor lies on the CPU: right, as each is brought to the host by itself.
    gathered = [torch.zeros(4), torch.zeros(4, device="ocl")]
    dist.all_gather(gathered, x + rank)
    assert [part.tolist() for part in gathered] == [[1.0] * 4, [2.0] * 4]
    out = torch.zeros(4 * size)
    dist.all_gather_into_tensor(out, x + rank)
    assert out.tolist() == [1.0] * 4 + [2.0] * 4
    dist.all_to_all_single(out[:4], x + rank)
    assert out[:4].tolist() == [1, 1, 2, 2]
    dist.reduce_scatter_tensor(out[:2], x + rank)
    assert out[:2].tolist() == [3, 3]


def test_unlike_tensors_on_a_rank(pair):
    pair(check_kinds)


def check_end(rank, size):
    """Collectives are under way when their group ends."""
    group = dist.new_group()
    parts = [torch.full((1 << 20,), rank + 1.0, device="ocl") for _ in range(4)]
    works = [dist.all_reduce(part, group=group, async_op=True) for part in parts]
    dist.destroy_process_group(group)
    for work in works:
        work.wait()
    for part in parts:
        assert part.unique().tolist() == [3.0]
    with pytest.raises(ValueError, match="group"):
        dist.destroy_process_group(group)
    x = torch.ones(4, device="ocl")
    dist.all_reduce(x)
    assert x.tolist() == [size] * 4


def test_group_that_ends_with_work_under_way(pair):
    pair(check_end)


def test_no_group(device):
    assert not dist.is_initialized()
    x = torch.ones(4, device="ocl")
    for call in (lambda: dist.all_reduce(x), lambda: dist.send(x, 0), dist.barrier,
                 lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to("ocl"))):  # fmt: skip
        with pytest.raises(ValueError, match="has not been initialized"):
            call()
    assert x.tolist() == [1] * 4


def calls(rank):
    """Collectives that ranks call with unlike arguments."""
    x = {count: torch.ones(count, device="ocl") for count in (4, 8, 16)}
    count = 4 + 4 * rank
    yield lambda group: dist.all_reduce(x[count], group=group)
    yield lambda group: dist.broadcast(x[count], 0, group=group)
    yield lambda group: dist.all_gather_into_tensor(x[2 * count], x[count], group=group)
    yield lambda group: dist.reduce_scatter_tensor(x[count], x[2 * count], group=group)
    yield lambda group: dist.all_reduce(x[4].to((torch.float32, torch.float64)[rank]), group=group)
    yield lambda group: dist.all_reduce(x[4], group=group) if rank else dist.broadcast(x[4], 0, group=group)


def check_mismatches(rank, size):
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)  # as TORCH_DISTRIBUTED_DEBUG=DETAIL
    for call in calls(rank):
        group = dist.new_group(timeout=timedelta(seconds=20))
        with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
            call(group)
        dist.destroy_process_group(group)
    group = dist.new_group(timeout=timedelta(seconds=3))
    if rank == 0:  # the other one does not come
        with pytest.raises(RuntimeError, match="failed to pass monitoredBarrier"):
            dist.all_reduce(torch.ones(4, device="ocl"), group=group)
    dist.barrier()
    dist.set_debug_level(level)


def test_unlike_calls_are_found_with_the_debug_level(pair):
    """Without it Gloo itself ends the process, also for CPU tensors."""
    pair(check_mismatches)
