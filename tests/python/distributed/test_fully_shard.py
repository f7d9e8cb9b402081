"""What fully_shard() is used with, against one process on the joined batch (on the CPU, float64)."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

from distributed.test_sharded import WIDTH, Net, check_weights, data, net, step, trained, whole

MSE = nn.functional.mse_loss


def sharded(model, mesh=None, **options):
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def plain_mesh(size):
    return init_device_mesh("ocl", (size,))


def loss_of(model, number, rank=0, size=1, device="cpu", dtype=torch.float64):
    x, y = (part[rank::size].to(device, dtype) for part in data(number))
    return MSE(model(x), y)


def check_accumulation(rank, size, reshard):
    """Gradients of the first half of the batches stay on their rank."""
    model, reference = sharded(net().to("ocl"), plain_mesh(size)), net().double()
    for number in range(4):
        last = number == 3
        model.set_requires_gradient_sync(last)
        if not reshard:
            model.set_reshard_after_backward(last)
        model.set_is_last_backward(last)
        loss_of(model, number, rank, size, "ocl", torch.float32).backward()
        assert last or not reshard or model.head.weight.grad is None
        loss_of(reference, number).backward()
    for mine, right in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(whole(mine.grad), right.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reshard", [True, False], ids=["resharded", "kept whole"])
def test_gradient_accumulation(pair, reshard):
    pair(check_accumulation, reshard)


def check_clipping(rank, size, norm, foreach):
    model, reference = sharded(net().to("ocl"), plain_mesh(size)), net().double()
    loss_of(model, 0, rank, size, "ocl", torch.float32).backward()
    loss_of(reference, 0).backward()
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.05, norm, foreach=foreach)
    right = nn.utils.clip_grad_norm_(reference.parameters(), 0.05, norm)
    assert isinstance(total, DTensor) and total.to_local().device.type == "ocl"
    torch.testing.assert_close(total.full_tensor().cpu().double(), right, rtol=1e-4, atol=1e-6)
    for mine, other in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(whole(mine.grad), other.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")], ids=str)
def test_clip_grad_norm(pair, norm):
    pair(check_clipping, norm, None if norm == 1.0 else norm == 2.0)


def check_meta(rank, size, broadcast):
    """A model that no rank ever has whole; its weights come from rank 0, or each rank makes its part."""
    with torch.device("meta"):
        model = Net()
    sharded(model, plain_mesh(size))
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    model.to_empty(device="ocl")
    if broadcast:
        state = net().state_dict() if rank == 0 else {}
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, state, options=options)
        check_weights(model.parameters(), net().double(), 0)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for number in range(3):
            step(model, optimizer, number, rank, size, "ocl", torch.float32)
        check_weights(model.parameters(), trained())
        return
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.reset_parameters()
    weight = whole(model.blocks[0].up.weight)
    bound = WIDTH**-0.5
    assert weight.abs().max() <= bound and weight.std() > bound / 3  # uniform, another number in every place
    assert len(set(weight.flatten().tolist())) > weight.numel() * 0.9
    assert loss_of(model, 0, rank, size, "ocl", torch.float32).isfinite()


@pytest.mark.parametrize("broadcast", [True, False], ids=["weights of rank 0", "each its own part"])
def test_meta_device(pair, broadcast):
    pair(check_meta, broadcast)


def check_state_dicts(rank, size, offload):
    mesh, policy = plain_mesh(size), {"offload_policy": CPUOffloadPolicy()} if offload else {}
    model = sharded(net().to("ocl"), mesh, **policy)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    step(model, optimizer, 0, rank, size, "ocl", torch.float32)
    parts = model.state_dict()
    assert all(isinstance(value, DTensor) for value in parts.values())
    assert parts["head.weight"].to_local().device.type == ("cpu" if offload else "ocl")
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, states = (
        get_model_state_dict(model, options=full),
        get_optimizer_state_dict(model, optimizer, options=full),
    )
    if rank == 0:
        for name, right in trained(1).state_dict().items():
            assert weights[name].device.type == "cpu"
            torch.testing.assert_close(weights[name].double(), right, rtol=1e-4, atol=1e-5)
    else:
        assert weights == {}
    again = sharded(net().to("ocl"), mesh, **policy)
    optimizer = torch.optim.Adam(again.parameters(), 0.01)
    spread = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(again, weights, options=spread)
    set_optimizer_state_dict(again, optimizer, states, options=spread)
    other = sharded(net().to("ocl"), mesh, **policy)
    other.load_state_dict(parts)
    check_weights(other.parameters(), trained(1))
    for number in (1, 2):
        step(again, optimizer, number, rank, size, "ocl", torch.float32)
    check_weights(again.parameters(), trained())


@pytest.mark.parametrize("offload", [False, True], ids=["on the device", "offloaded"])
def test_state_dicts(pair, offload):
    pair(check_state_dicts, offload)


class Shared(nn.Module):
    """One layer twice, and the first layer frozen."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.again, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.again.weight = self.blocks[1].weight
        self.blocks[0].requires_grad_(False)

    def forward(self, x):
        return self.head(torch.tanh(self.again(torch.tanh(self.blocks[1](torch.tanh(self.blocks[0](x)))))))


def check_shared(rank, size):
    torch.manual_seed(1)
    reference = Shared()
    model = copy.deepcopy(reference).to("ocl")
    reference.double()
    fully_shard(model.blocks[0], mesh=plain_mesh(size))
    fully_shard(model, mesh=plain_mesh(size))
    assert model.again.weight is model.blocks[1].weight
    optimizers = [torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], 0.01) for m in (model, reference)]
    for number in range(3):
        step(model, optimizers[0], number, rank, size, "ocl", torch.float32)
        step(reference, optimizers[1], number)
    assert model.blocks[0].weight.grad is None
    check_weights(model.parameters(), reference)


def test_shared_and_frozen_parameters(pair):
    pair(check_shared)


class Recomputing(Net):
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def check_recomputing(rank, size, compiled):
    torch.manual_seed(0)
    model = sharded((Net if compiled else Recomputing)().to("ocl"), plain_mesh(size))
    if compiled:
        for block in model.blocks:
            block.compile(backend=compiled)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        step(model, optimizer, number, rank, size, "ocl", torch.float32)
    check_weights(model.parameters(), trained())


def test_activation_checkpointing(pair):
    pair(check_recomputing, None)


@pytest.mark.slow
def test_compiled_blocks(pair):
    pair(check_recomputing, "inductor")


def check_prefetch_and_hooks(rank, size):
    """Prefetching and unshard() by hand, and a function that every all-reduce of a hybrid group goes through."""
    mesh = init_device_mesh("ocl", (size, 1), mesh_dim_names=("replicate", "shard"))
    model = sharded(net().to("ocl"), mesh, reshard_after_forward=False)
    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
    model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    called = []
    model.set_all_reduce_hook(lambda reduced: called.append(reduced.device.type))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        handle = model.blocks[0].unshard(async_op=True)
        handle.wait()
        step(model, optimizer, number, rank, size, "ocl", torch.float32)
    assert set(called) == {"ocl"}
    check_weights(model.parameters(), trained())


def test_prefetch_and_hooks(pair):
    pair(check_prefetch_and_hooks)


def check_two_dimensions(rank, size):
    """Four ranks: each layer split in two by tensor parallelism, and the halves sharded over two."""
    mesh = init_device_mesh("ocl", (2, 2), mesh_dim_names=("data", "tensor"))
    model = net().to("ocl")
    for block in model.blocks:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sharded(model, mesh["data"])
    assert model.blocks[0].up.weight.to_local().shape == ((8, 7)[rank // 2], WIDTH)  # of 15 rows of 30
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for number in range(3):
        step(model, optimizer, number, rank // 2, 2, "ocl", torch.float32)
    total = nn.utils.clip_grad_norm_(model.blocks.parameters(), 1.0)
    assert total.full_tensor().isfinite()
    check_weights(model.parameters(), trained())
    dist.barrier()


def test_with_tensor_parallel(four):
    four(check_two_dimensions)
