"""DTensor's moves, plans of tensor parallelism, and attention over parts of a sequence."""

import itertools

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

TOKENS, WIDTH, CLASSES = 6, 8, 10


def tolerance(terms):
    return {"rtol": 8 * torch.finfo(torch.float32).eps * terms**0.5, "atol": 1e-5}


def placed(value, mesh, placements, rank):
    """A DTensor that is `value` as a whole; parts of a sum are unlike each other."""
    spread = [Replicate() if placement.is_partial() else placement for placement in placements]
    local = distribute_tensor(value, mesh, spread).to_local()
    for dim, placement in enumerate(placements):
        if placement.is_partial():
            here, size = mesh.get_local_rank(dim), mesh.size(dim)
            if placement.reduce_op == "sum":
                local = local * (here + 1) / (size * (size + 1) / 2)
            elif placement.reduce_op in ("max", "min"):
                local = local + (here * (-1 if placement.reduce_op == "max" else 1))
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=value.shape, stride=value.stride())


def check_redistribute(rank, size, shape, dimensions):
    """Uneven shards among them: 7 rows."""
    mesh = init_device_mesh("ocl", dimensions)
    value = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    kinds = [Replicate(), Partial(), Partial("max"), Partial("min"), *(Shard(dim) for dim in range(len(shape)))]
    if len(dimensions) > 1:
        kinds = [Replicate(), Partial(), Shard(0), Shard(1)]
    for source in itertools.product(kinds, repeat=len(dimensions)):
        for target in itertools.product(kinds, repeat=len(dimensions)):
            if any(t.is_partial() and t != s for s, t in zip(source, target, strict=True)):
                continue  # PyTorch makes no sums of what is none
            x = placed(value, mesh, source, rank)
            moved = x.redistribute(mesh, target)
            assert tuple(moved.placements) == target and moved.to_local().device.type == "ocl"
            torch.testing.assert_close(moved.full_tensor().cpu(), value, **tolerance(4), msg=f"{source} {target}")


@pytest.mark.parametrize("shape", [(7, 4), (8, 3, 5), (1, 2)], ids=str)
def test_redistribute(pair, shape):
    pair(check_redistribute, shape, (2,))


def test_redistribute_on_two_dimensions(four):
    four(check_redistribute, (7, 6), (2, 2))


def check_gradients_of_moves(rank, size):
    mesh = init_device_mesh("ocl", (size,))
    value, weight = torch.randn(7, 4), torch.randn(7, 4)
    for source, target in itertools.product([Replicate(), Shard(0), Shard(1)], repeat=2):
        x = distribute_tensor(value, mesh, [source]).requires_grad_()
        y = x.redistribute(mesh, [target])
        (y * distribute_tensor(weight, mesh, [target])).sum().backward()
        torch.testing.assert_close(x.grad.full_tensor().cpu(), weight, **tolerance(1))
    local = torch.full((3,), rank + 1.0, device="ocl", requires_grad=True)
    DTensor.from_local(local, mesh, [Partial()]).full_tensor().square().sum().backward()
    assert local.grad.tolist() == [size * (size + 1.0)] * 3


def test_gradients_of_moves(pair):
    pair(check_gradients_of_moves)


class Layer(nn.Module):
    """A layer of a transformer as its plan wants it: names for attention's and the feed-forward part's products."""

    def __init__(self):
        super().__init__()
        self.norm, self.second_norm = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.gate, self.down = nn.Linear(WIDTH, 24), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def attention(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, 2)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        y = self.second_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.norm = nn.Embedding(CLASSES, WIDTH), Layer(), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        return self.head(self.norm(self.layer(self.embedding(tokens))))


def plan(parallel_loss):
    """Sequences are split between the products, as PyTorch's tutorial has it for large models."""
    columns = {f"layer.{name}": ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "up", "gate")}
    rows = {f"layer.{name}": RowwiseParallel(output_layouts=Shard(1)) for name in ("o", "down")}
    norms = {name: SequenceParallel() for name in ("layer.norm", "layer.second_norm", "norm")}
    embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    output = Shard(-1) if parallel_loss else Replicate()
    head = ColwiseParallel(input_layouts=Shard(1), output_layouts=output, use_local_output=not parallel_loss)
    layer = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Shard(1),), use_local_output=True)
    return columns | rows | norms | {"embedding": embedding, "head": head, "layer": layer}


def check_sequence_parallel(rank, size, parallel_loss):
    torch.manual_seed(0)
    model, mesh = Language(), init_device_mesh("ocl", (size,))
    torch.manual_seed(0)
    reference = Language().double()
    parallelize_module(model.to("ocl"), mesh, plan(parallel_loss))
    assert model.layer.q.weight.to_local().shape == (WIDTH // size, WIDTH)
    optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (model, reference)]
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        tokens, wanted = torch.randint(CLASSES, (2, 3, TOKENS), generator=generator)[:, :, :].unbind(0)
        right = nn.functional.cross_entropy(reference(tokens).flatten(0, 1), wanted.flatten())
        optimizers[1].zero_grad()
        right.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        tokens, wanted = tokens.to("ocl"), wanted.to("ocl")
        if parallel_loss:
            with loss_parallel():
                loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())
                loss.backward()
        else:
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())
            loss.backward()
        optimizers[0].step()
        loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
        torch.testing.assert_close(loss.cpu().double(), right, rtol=1e-4, atol=1e-5)
    for (name, mine), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        whole = mine.full_tensor() if isinstance(mine, DTensor) else mine
        torch.testing.assert_close(whole.detach().cpu().double(), other.detach(), rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("parallel_loss", [False, True], ids=["whole loss", "loss_parallel"])
def test_sequence_parallel(pair, parallel_loss):
    pair(check_sequence_parallel, parallel_loss)


class Doubled(nn.Module):
    def forward(self, x, scale=None):
        return 2 * x if scale is None else scale * x


def check_preparation(rank, size):
    mesh, x = init_device_mesh("ocl", (size,)), torch.arange(12.0).reshape(4, 3)
    mine = x.chunk(size)[rank].to("ocl")
    module = parallelize_module(
        Doubled(), mesh, PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate())
    )
    got = module(mine)
    assert got.placements == (Replicate(),) and torch.equal(got.to_local().cpu(), 2 * x)
    style = PrepareModuleInput(
        input_kwarg_layouts={"scale": Shard(0)},
        desired_input_kwarg_layouts={"scale": Replicate()},
        use_local_output=True,
    )
    got = parallelize_module(Doubled(), mesh, style)(x.to("ocl"), scale=mine)
    assert not isinstance(got, DTensor) and torch.equal(got.cpu(), x * x)
    style = PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate())
    assert torch.equal(parallelize_module(Doubled(), mesh, style)(mine).cpu(), 2 * x)
    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), output_layouts=Replicate(),
        desired_output_layouts=Shard(0),
    )  # fmt: skip
    assert torch.equal(parallelize_module(Doubled(), mesh, style)(mine), 2 * mine)
    net = distribute_module(nn.Linear(3, 2).to("ocl"), mesh)
    assert net.weight.placements == (Replicate(),)


def test_preparation_of_inputs_and_outputs(pair):
    pair(check_preparation)


def check_random(rank, size):
    """Shards are different numbers, replicas the same ones; a seed gives the same ones again."""
    mesh = init_device_mesh("ocl", (size,))
    found = []
    for placement in (Shard(0), Shard(0)):
        torch.ocl.manual_seed(5)
        found.append(torch.distributed.tensor.randn(64, 32, device_mesh=mesh, placements=[placement]).full_tensor())
    assert torch.equal(*found)
    for placement in (Shard(0), Shard(1), Replicate()):
        torch.ocl.manual_seed(5)
        x = torch.distributed.tensor.empty(64, 32, device_mesh=mesh, placements=[placement])
        nn.init.trunc_normal_(x, std=2.0)
        whole = x.full_tensor().cpu()
        assert len(set(whole.flatten().tolist())) > 2000 and 1 < whole.std() < 2.2
        parts = [torch.empty_like(x.to_local()) for _ in range(size)]
        dist.all_gather(parts, x.to_local().contiguous())
        assert torch.equal(parts[0], parts[1]) == placement.is_replicate()
    x = distribute_tensor(torch.ones(64, 32), mesh, [Shard(0)])
    for run in (torch.bernoulli, torch.rand_like, lambda t: nn.functional.dropout(t, 0.5)):
        first, second = run(x * 0.5).full_tensor().cpu(), run(x * 0.5).full_tensor().cpu()
        assert not torch.equal(first, second) and not torch.equal(*first.chunk(2))


def test_random_numbers(pair):
    pair(check_random)


def check_context_parallel(rank, size, causal):
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard

    _cp_options.enable_load_balance = causal  # PyTorch balances causal attention only
    torch.manual_seed(0)
    mesh, shape = init_device_mesh("ocl", (size,)), (2, 4, 8 * size, 16)
    right = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    expected = nn.functional.scaled_dot_product_attention(*right, is_causal=causal)
    expected.square().sum().backward()
    mine = [tensor.detach().float().to("ocl") for tensor in right]
    with context_parallel(mesh, buffers=mine, buffer_seq_dims=[2, 2, 2], no_restore_buffers=set(mine)):
        for tensor in mine:
            tensor.requires_grad_()
        out = nn.functional.scaled_dot_product_attention(*mine, is_causal=causal)
        out.square().sum().backward()
    results = context_parallel_unshard(mesh, [out.detach(), *(tensor.grad for tensor in mine)], [2] * 4)
    for got, other in zip(results, [expected.detach(), *(tensor.grad for tensor in right)], strict=True):
        torch.testing.assert_close(got.cpu().double(), other, rtol=1e-4, atol=1e-5)


def check_attention(rank, size, kind):
    """Shards of heads or of the batch need no communication."""
    from torch.distributed.tensor.debug import CommDebugMode

    torch.manual_seed(0)
    mesh, heads = init_device_mesh("ocl", (size,)), {"groups": 2}.get(kind, 4)
    shapes = [(2, 4, 6, 16), (2, heads, 6, 16), (2, heads, 6, 16)]
    right = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    options = {"is_causal": kind == "causal", "enable_gqa": kind == "groups"}
    mask = {"mask": torch.rand(6, 6) > 0.3, "wide mask": torch.randn(2, 4, 6, 6)}.get(kind)
    wide = mask.double() if mask is not None and mask.is_floating_point() else mask
    expected = nn.functional.scaled_dot_product_attention(*right, wide, **options)
    expected.square().sum().backward()
    for placement in (Shard(1), Shard(0), Replicate(), Shard(2), Partial()):
        mine = [placed(tensor.detach().float(), mesh, [placement], rank).requires_grad_() for tensor in right]
        part = mask if mask is None else distribute_tensor(mask, mesh, [Replicate()])
        with CommDebugMode() as messages:
            out = nn.functional.scaled_dot_product_attention(*mine, part, **options)
        assert messages.get_total_counts() == 0 or placement in (Shard(2), Partial())
        torch.testing.assert_close(out.full_tensor().cpu().double(), expected, rtol=1e-4, atol=1e-5)
        out.square().sum().backward()
        for tensor, other in zip(mine, right, strict=True):
            torch.testing.assert_close(tensor.grad.full_tensor().cpu().double(), other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "causal", "groups", "mask", "wide mask"])
def test_attention(pair, kind):
    pair(check_attention, kind)


@pytest.mark.parametrize("causal", [False, True], ids=["plain", "causal"])
def test_context_parallel(pair, causal):
    pair(check_context_parallel, causal)
