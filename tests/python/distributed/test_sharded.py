"""Models whose parameters or layers are spread over ranks, against one process on the joined batch."""

import copy
import functools

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WIDTH = 10  # no multiple of the ranks' shards in every layer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def data(step, samples=8):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(samples, WIDTH, generator=generator), torch.randn(samples, 3, generator=generator)


def net():
    torch.manual_seed(0)
    return Net()


def step(model, optimizer, number, rank=0, size=1, device="cpu", dtype=torch.float64):
    x, y = (part[rank::size].to(device, dtype) for part in data(number))
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@functools.cache
def trained(steps=3):
    model = net().double()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(steps):
        step(model, optimizer, number)
    return model


def whole(parameter):
    return (parameter.full_tensor() if isinstance(parameter, DTensor) else parameter).detach().cpu().double()


def check_weights(parameters, reference, tolerance=1e-4):
    for mine, right in zip(parameters, reference.parameters(), strict=True):
        torch.testing.assert_close(whole(mine), right.detach(), rtol=tolerance, atol=tolerance)


def check_fsdp2(rank, size, kind):
    mesh = init_device_mesh("ocl", (size,), mesh_dim_names=("shard",))
    options = {"mesh": mesh}
    if kind == "bfloat16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if kind == "offload":
        options["offload_policy"] = CPUOffloadPolicy()
    if kind == "hybrid":
        options["mesh"] = init_device_mesh("ocl", (1, size), mesh_dim_names=("replicate", "shard"))
    if kind == "replicated":
        options["mesh"] = init_device_mesh("ocl", (size, 1), mesh_dim_names=("replicate", "shard"))
    model = net().to("ocl")
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=kind != "kept", **options)
    fully_shard(model, **options)
    if kind == "divide factor":
        model.set_gradient_divide_factor(float(size))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        step(model, optimizer, number, rank, size, "ocl", torch.float32)
    local = model.blocks[0].up.weight.to_local()
    assert local.device.type == ("cpu" if kind == "offload" else "ocl")
    assert local.shape[0] == 3 * WIDTH // (1 if kind == "replicated" else size)
    # The gathering of weights on the CPU needs no device.
    check_weights(model.parameters(), trained(), 0.02 if kind == "bfloat16" else 1e-4)


@pytest.mark.feature("Distributed")
@pytest.mark.parametrize("kind", ["plain", "kept", "bfloat16", "offload", "hybrid", "replicated", "divide factor"])
def test_fsdp2(pair, kind):
    pair(check_fsdp2, kind)


def test_fsdp2_staged(staged):
    staged(check_fsdp2, "plain")


def check_fsdp1(rank, size, original):
    model = FullyShardedDataParallel(
        net(), device_id=torch.device("ocl", 0), use_orig_params=original, auto_wrap_policy=lambda module, recurse,
        nonwrapped_numel: recurse or isinstance(module, Block)
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        step(model, optimizer, number, rank, size, "ocl", torch.float32)
    with FullyShardedDataParallel.summon_full_params(model):
        check_weights(model.parameters() if original else list(model.module.parameters()), trained())


@pytest.mark.parametrize("original", [True, False], ids=["original parameters", "flat parameters"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_fsdp1(pair, original):
    pair(check_fsdp1, original)


def check_dtensor(rank, size):
    mesh = init_device_mesh("ocl", (size,))
    torch.manual_seed(0)
    a, b = torch.randn(8, 6), torch.randn(6, 4)
    for first in (Shard(0), Shard(1), Replicate()):
        for second in (Shard(0), Shard(1), Replicate()):
            x, y = distribute_tensor(a, mesh, [first]), distribute_tensor(b, mesh, [second])
            assert x.to_local().device.type == "ocl"
            result = x @ y
            torch.testing.assert_close(result.full_tensor().cpu(), a @ b)
            torch.testing.assert_close(x.softmax(1).full_tensor().cpu(), a.softmax(1))
    part = DTensor.from_local(torch.full((3,), rank + 1.0, device="ocl"), mesh, [Partial()])
    assert part.full_tensor().tolist() == [size * (size + 1) / 2] * 3
    moved = distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    assert torch.equal(moved.full_tensor().cpu(), torch.arange(12.0).reshape(4, 3))
    # Every rank has its part of the same random numbers.
    torch.ocl.manual_seed(7)
    random = torch.distributed.tensor.rand(64, 5, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
    assert len(set(random.flatten().tolist())) > 300
    dropped = nn.functional.dropout(distribute_tensor(torch.ones(400, 4), mesh, [Shard(0)]), 0.5).full_tensor()
    halves = dropped.cpu().chunk(2)
    assert 500 < (dropped != 0).sum().item() < 1100 and not torch.equal(*halves)


@pytest.mark.feature("Distributed")
def test_dtensor(pair):
    pair(check_dtensor)


def check_tensor_parallel(rank, size):
    mesh = init_device_mesh("ocl", (size,))
    model = net().to("ocl")
    plan = {f"blocks.{i}.{name}": style() for i in range(2) for name, style in
            (("up", ColwiseParallel), ("down", RowwiseParallel))}  # fmt: skip
    plan["head"] = ColwiseParallel(output_layouts=Replicate())
    parallelize_module(model, mesh, plan)
    assert model.blocks[0].up.weight.to_local().shape == (3 * WIDTH // size, WIDTH)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        step(model, optimizer, number, device="ocl", dtype=torch.float32)
    check_weights(model.parameters(), trained())


def test_tensor_parallel(pair):
    pair(check_tensor_parallel)


def check_pipeline(rank, size, schedule):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    model, reference = net(), net().double()
    parts = [nn.Sequential(model.blocks[0]), nn.Sequential(model.blocks[1], model.head)]
    part = parts[rank].to("ocl")
    stage = PipelineStage(part, rank, size, torch.device("ocl", 0))
    make = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[schedule]
    runner = make(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    x, y = data(0)
    losses = []
    if rank == 0:
        runner.step(x.to("ocl"))
    else:
        runner.step(target=y.to("ocl"), losses=losses)
        assert len(losses) == 4
    nn.functional.mse_loss(reference(x.double()), y.double()).backward()
    right = [nn.Sequential(reference.blocks[0]), nn.Sequential(reference.blocks[1], reference.head)][rank]
    for got, expected in zip(part.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu().double(), expected.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_pipeline(pair, schedule):
    pair(check_pipeline, schedule)


def sharded(size):
    model = net().to("ocl")
    fully_shard(model, mesh=init_device_mesh("ocl", (size,)))
    return model, torch.optim.Adam(model.parameters(), 0.01)


def check_checkpoint(rank, size, folder):
    model, optimizer = sharded(size)
    step(model, optimizer, 0, rank, size, "ocl", torch.float32)
    weights, states = get_state_dict(model, optimizer)
    saving = dcp.async_save({"model": weights, "optimizer": states}, checkpoint_id=folder + "/async")
    saving.result()
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder + "/sync")
    for number in (1, 2):
        step(model, optimizer, number, rank, size, "ocl", torch.float32)
    check_weights(model.parameters(), trained())
    for kind in ("async", "sync"):
        again, optimizer = sharded(size)
        weights, states = get_state_dict(again, optimizer)
        dcp.load({"model": weights, "optimizer": states}, checkpoint_id=f"{folder}/{kind}")
        set_state_dict(again, optimizer, model_state_dict=weights, optim_state_dict=states)
        for number in (1, 2):
            step(again, optimizer, number, rank, size, "ocl", torch.float32)
        for mine, right in zip(again.parameters(), model.parameters(), strict=True):
            assert torch.equal(mine.to_local(), right.to_local())


def test_distributed_checkpoint(pair, tmp_path):
    pair(check_checkpoint, str(tmp_path))
    # One process takes up what two have written.
    model = copy.deepcopy(net()).to("ocl")
    weights = model.state_dict()
    dcp.load({"model": weights}, checkpoint_id=str(tmp_path / "sync"))
    reference = trained(1)
    for name, right in reference.state_dict().items():
        assert weights[name].device.type == "ocl"
        torch.testing.assert_close(weights[name].cpu().double(), right, rtol=1e-4, atol=1e-4)
    assert not dist.is_initialized()
