"""Which backend serves `ocl`: this one, whatever a script asks for."""

import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

PACKAGE = Path(__file__).resolve().parents[3] / "python"


def check_sums(size, group=None):
    for device in ("cpu", "ocl"):
        x = torch.ones(3, device=device)
        dist.all_reduce(x, group=group)
        assert x.device.type == device and x.tolist() == [size] * 3


def check_group(rank, size, name):
    """A new default group, on a store of its own."""
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    dist.barrier()
    dist.destroy_process_group()
    again = dist.FileStore(os.path.join(folder[0], "store"), size)
    options = {"store": again, "rank": rank, "world_size": size, "timeout": datetime.timedelta(seconds=60)}
    dist.init_process_group(name, **options)
    check_sums(size)
    objects = [None] * size
    dist.all_gather_object(objects, rank)
    assert objects == list(range(size))
    dist.monitored_barrier()
    dist.barrier()
    half = dist.new_group([0])
    if rank == 0:
        check_sums(1, half)
    mesh = dist.init_device_mesh("ocl", (size,), mesh_dim_names=("all",)) if hasattr(dist, "init_device_mesh") else None
    if mesh is not None:
        check_sums(size, mesh.get_group("all"))
    # Work without a group of its own: the functional collectives, which the compiler traces.
    from torch.distributed._functional_collectives import all_gather_tensor, all_reduce

    x = torch.full((2,), rank + 1.0, device="ocl")
    assert all_reduce(x, "sum", dist.group.WORLD).tolist() == [size * (size + 1) / 2] * 2
    assert all_gather_tensor(x, 0, dist.group.WORLD).tolist() == [1, 1, 2, 2]


@pytest.mark.feature("Distributed")
@pytest.mark.parametrize("name", [None, "gloo", "cpu:gloo,ocl:gloo", "cpu:gloo,ocl:ocl_gloo"], ids=str)
def test_names(pair, name):
    pair(check_group, name)


def check_second_groups(rank, size):
    for name in (None, "gloo", "cpu:gloo,ocl:gloo"):
        check_sums(size, dist.new_group(backend=name))
    mesh = torch.distributed.device_mesh.init_device_mesh("ocl", (1, size), mesh_dim_names=("a", "b"))
    check_sums(size, mesh.get_group("b"))
    check_sums(1, mesh.get_group("a"))
    assert mesh["b"].size() == size


def test_second_groups(pair):
    pair(check_second_groups)


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_process_without_launcher():
    code = """
import tempfile, torch, torch.distributed as dist, torch_ocl
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(3, device="ocl")
dist.all_reduce(x)
assert x.tolist() == [1, 1, 1]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2).to("ocl"))
model(x).sum().backward()
assert model.module.weight.grad.device.type == "ocl"
print("done")  # and nobody calls destroy_process_group()
"""
    assert run(code) == ("done\n", "")


def test_importing_imports_no_more():
    """A program that does not ask for several processes pays nothing for them, and needs no Gloo."""
    code = """
import torch, torch_ocl, sys
print(torch.ocl.is_initialized())
"""
    assert run(code)[0].split() == ["False"]
    code = """
import torch
torch.distributed.is_available = lambda: False
import torch_ocl
from torch_ocl import _distributed
assert _distributed.NAME not in torch.distributed.Backend.backend_list
print(torch.ones(2, device="ocl").sum().item())
"""
    assert run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")[0].split() == ["2.0"]


def check_short_lives(rank, size):
    for _ in range(100):
        group = dist.new_group()
        x = torch.ones(8, device="ocl")
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
        del group
        assert x[0] == size


def test_groups_that_end_with_their_last_collective(pair):
    """Gloo's threads may still hold a collective then, and must not be the ones that end the group: they would join
    themselves."""
    pair(check_short_lives)
