"""DistributedDataParallel and what comes with it, against one process on the joined batch (on the CPU, float64)."""

import copy
import gc

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS, SAMPLES = 4, 8  # of all ranks


class Net(nn.Module):
    """With `skipped`, a layer has a gradient in even steps only; `shared` is used twice."""

    def __init__(self, skipped=False):
        super().__init__()
        self.a, self.b, self.shared = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.out = nn.Linear(16, 3)
        self.skipped = skipped

    def forward(self, x, step=0):
        x = torch.tanh(self.a(x))
        if not self.skipped or step % 2 == 0:
            x = x + self.b(x)
        return self.out(self.shared(torch.tanh(self.shared(x))))


def data(step, samples=SAMPLES):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(samples, 6, generator=generator), torch.randn(samples, 3, generator=generator)


def alone(skipped=False, steps=STEPS, rate=0.1, optimizer=torch.optim.SGD):
    torch.manual_seed(0)
    model = Net(skipped).double()
    optimizer = optimizer(model.parameters(), rate)
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.double(), step), y.double()).backward()
        optimizer.step()
    return model


def check_weights(model, reference, tolerance=1e-5):
    for (name, mine), right in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert mine.device.type == "ocl"
        torch.testing.assert_close(mine.cpu().double(), right.double(), rtol=tolerance, atol=tolerance, msg=name)


def step_ddp(model, optimizer, rank, size, step, scale=1.0):
    x, y = (part[rank::size].to("ocl") for part in data(step))
    (nn.functional.mse_loss(model(x, step), y) * scale).backward()
    if optimizer:
        optimizer.step()
        optimizer.zero_grad()


def fresh(skipped=False):
    torch.manual_seed(0)
    return Net(skipped).to("ocl")


def check_ddp(rank, size, options):
    skipped = options.get("find_unused_parameters", False)
    model = DistributedDataParallel(fresh(skipped), **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        step_ddp(model, optimizer, rank, size, step)
    check_weights(model.module, alone(skipped))
    logged = model._get_ddp_logging_data()
    assert logged["backward_comm_time"] >= 0 and logged["backward_compute_time"] > 0, logged


DDP_OPTIONS = [
    {},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
    {"broadcast_buffers": False, "device_ids": [0], "output_device": 0},
]


@pytest.mark.feature("Distributed")
@pytest.mark.parametrize("options", DDP_OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_ddp(pair, options):
    pair(check_ddp, options)


def test_ddp_staged(staged):
    staged(check_ddp, {"bucket_cap_mb": 0.001})


def check_no_sync(rank, size):
    """Two halves of a batch, the first without communication."""
    model, reference = DistributedDataParallel(fresh()), copy.deepcopy(fresh()).cpu().double()
    x, y = data(0)
    mine = [part[rank::size].to("ocl").chunk(2) for part in (x, y)]
    with model.no_sync():
        (nn.functional.mse_loss(model(mine[0][0]), mine[1][0]) / 2).backward()
    (nn.functional.mse_loss(model(mine[0][1]), mine[1][1]) / 2).backward()
    nn.functional.mse_loss(reference(x.double()), y.double()).backward()
    for got, right in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu().double(), right.grad, rtol=1e-5, atol=1e-6)


def test_no_sync(pair):
    pair(check_no_sync)


def check_join(rank, size):
    """Rank 1 has two steps more than rank 0; the gradients of the last ones are its own alone."""
    model, reference = DistributedDataParallel(fresh()), fresh().cpu().double()
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, reference)]
    with model.join(divide_by_initial_world_size=False):
        for step in range(2 + 2 * rank):
            step_ddp(model, optimizers[0], rank, size, step)
    for step in range(4):
        x, y = (part.double() if step < 2 else part[1::size].double() for part in data(step))
        optimizers[1].zero_grad()
        nn.functional.mse_loss(reference(x), y).backward()
        optimizers[1].step()
    check_weights(model.module, reference)


def test_join_with_uneven_inputs(pair):
    pair(check_join)


def check_hooks(rank, size, kind):
    model = DistributedDataParallel(fresh())
    state = None
    if kind == "powerSGD":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=16, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif kind == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif kind == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    else:
        model.register_comm_hook(None, default_hooks.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        step_ddp(model, optimizer, rank, size, step)
    check_weights(model.module, alone(), {"allreduce": 1e-5, "fp16": 1e-3, "bf16": 1e-2, "powerSGD": 1e-2}[kind])
    if kind == "powerSGD":
        assert state.iter > 2


@pytest.mark.parametrize("kind", ["allreduce", "fp16", "bf16", "powerSGD"])
def test_communication_hooks(pair, kind):
    pair(check_hooks, kind)


def check_sync_batch_norm(rank, size):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 2))
    reference = copy.deepcopy(net).double()
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net).to("ocl"))
    x = torch.randn(8, 3, 6, 6) * 3 + 1
    model(x[rank::size].to("ocl")).square().mean().backward()
    reference(x.double()).square().mean().backward()
    for got, right in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu().double(), right.grad, rtol=1e-4, atol=1e-5)
    for got, right in zip(model.module[1].buffers(), reference[1].buffers(), strict=True):
        assert got.device.type == "ocl"
        torch.testing.assert_close(got.cpu().to(right.dtype), right, rtol=1e-5, atol=1e-5)


def test_sync_batch_norm(pair):
    pair(check_sync_batch_norm)


def check_zero(rank, size, overlapped):
    model = DistributedDataParallel(fresh(), gradient_as_bucket_view=overlapped)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=overlapped
    )
    for step in range(STEPS):
        step_ddp(model, optimizer, rank, size, step)
    check_weights(model.module, alone(rate=0.01, optimizer=torch.optim.Adam), 1e-4)
    own = {id(parameter) for parameter in optimizer.optim.state}
    assert 0 < len(own) < len(list(model.parameters()))  # a part of the states
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


@pytest.mark.parametrize("overlapped", [False, True], ids=["plain", "bucket views"])
def test_zero_redundancy_optimizer(pair, overlapped):
    pair(check_zero, overlapped)


def check_zero_join(rank, size):
    model = DistributedDataParallel(fresh())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        for step in range(2 + rank):
            step_ddp(model, None, rank, size, step)
            optimizer.step()
            optimizer.zero_grad()
    values = [parameter.detach().clone() for parameter in model.parameters()]
    for value in values:
        same = value.clone()
        dist.broadcast(same, 0)
        assert torch.equal(same, value)


def test_join_of_model_and_optimizer(pair):
    pair(check_zero_join)


def check_overlap(rank, size):
    """A collective that has to wait for its peer keeps neither Python nor the device: issuing returns at once."""
    import time

    x = torch.ones(1 << 16, device="ocl")
    torch.full((8,), 2.0, device="ocl").square().sum().item()  # its kernels are compiled before the time is taken
    dist.all_reduce(x.clone())
    torch.ocl.synchronize()
    dist.barrier()
    if rank == 1:
        time.sleep(3.0)
    start = time.perf_counter()
    work = dist.all_reduce(x, async_op=True)
    issued = time.perf_counter() - start
    y = torch.full((8,), 2.0, device="ocl").square().sum().item()
    computed = time.perf_counter() - start
    work.wait()
    waited = time.perf_counter() - start
    assert y == 32, y
    assert torch.equal(x.cpu(), torch.full((1 << 16,), float(size)))
    if rank == 0:
        assert issued < 1.5 and computed < 2.5 < waited, (issued, computed, waited)


def test_issuing_blocks_nobody(pair):
    pair(check_overlap)


def test_issuing_blocks_nobody_staged(staged):
    staged(check_overlap)


def check_end_under_way(rank, size):
    """The model has the last reference to its group, and collectives are under way that nobody waits for: Gloo's
    threads let go of tensors that Python knows while the group's end waits for those threads."""
    group = dist.new_group()
    model = DistributedDataParallel(nn.Linear(4, 4).to("ocl"), process_group=group)
    dist.barrier()
    for _ in range(4):
        dist.all_reduce(torch.ones(1 << 22, device="ocl"), group=group, async_op=True)
    dist.destroy_process_group(group)
    del group
    del model
    gc.collect()


def test_a_model_that_ends_its_group(pair):
    pair(check_end_under_way, seconds=120)
