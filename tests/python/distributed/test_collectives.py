"""Every collective, against the CPU's Gloo in the same group or against what it must give."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
MOVED = [*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.float8_e4m3fn]
OPERATORS = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
BITS = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]


def values(rank, *shape, dtype=torch.float32):
    """Small numbers, which no order of adding rounds, another for each rank."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return ((numbers * (rank + 3)) % 7 - 2 * (not dtype.is_signed)).abs().to(dtype)


def same(a, b):
    assert a.device.type == "ocl", a.device
    a, b = a.cpu(), b.cpu()
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    if a.dtype.itemsize == 1:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    assert torch.equal(a, b), (a, b)


def reduced(parts, op):
    """The right result in wide types, brought back: what Gloo lacks (int16, bool) has no other reference."""
    dtype = parts[0].dtype
    if dtype == torch.bool:
        functions = {
            ReduceOp.SUM: torch.logical_or,
            ReduceOp.MAX: torch.logical_or,
            ReduceOp.BOR: torch.logical_or,
            ReduceOp.PRODUCT: torch.logical_and,
            ReduceOp.MIN: torch.logical_and,
            ReduceOp.BAND: torch.logical_and,
            ReduceOp.BXOR: torch.logical_xor,
        }
    else:
        functions = {
            ReduceOp.SUM: torch.add,
            ReduceOp.PRODUCT: torch.mul,
            ReduceOp.MIN: torch.minimum,
            ReduceOp.MAX: torch.maximum,
            ReduceOp.BAND: torch.bitwise_and,
            ReduceOp.BOR: torch.bitwise_or,
            ReduceOp.BXOR: torch.bitwise_xor,
        }
    result = parts[0]
    for part in parts[1:]:
        result = functions[op](result, part)
    return result


def check_reductions(rank, size, dtype):
    integral = not (dtype.is_floating_point or dtype.is_complex)
    for op in [*OPERATORS, *(BITS if integral else ())]:
        parts = [values(r, 2 * size, 3, dtype=dtype) for r in range(size)]
        expected = reduced(parts, op)
        x = parts[rank].to("ocl")
        dist.all_reduce(x, op)
        same(x, expected)
        x = parts[rank].to("ocl")
        dist.reduce(x, 1, op)
        if rank == 1:
            same(x, expected)
        x, out = parts[rank].to("ocl"), torch.empty(2, 3, dtype=dtype, device="ocl")
        dist.reduce_scatter_tensor(out, x, op)
        same(out, expected.chunk(size)[rank])
        same(x, parts[rank])
        out.zero_()
        dist.reduce_scatter(out, [part.contiguous() for part in x.chunk(size)], op)
        same(out, expected.chunk(size)[rank])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_reductions(pair, dtype):
    pair(check_reductions, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16], ids=str)
def test_reductions_staged(staged, dtype):
    staged(check_reductions, dtype)


def check_averages(rank, size):
    for dtype in [*FLOATS, torch.int32]:
        parts = [values(r, 4, 5, dtype=dtype) for r in range(size)]
        total = reduced(parts, ReduceOp.SUM)
        mean = total / size if dtype.is_floating_point else total.div(size, rounding_mode="trunc")
        x = parts[rank].to("ocl")
        dist.all_reduce(x, ReduceOp.AVG)
        same(x, mean.to(dtype))
        if not dtype.is_floating_point:
            continue
        x, out = parts[rank].to("ocl"), torch.empty(4 // size, 5, dtype=dtype, device="ocl")
        for op, factor in ((ReduceOp.AVG, 1 / size), (dist._make_nccl_premul_sum(0.25), 0.25)):
            dist.reduce_scatter_tensor(out, x, op)
            same(out, (total * factor).chunk(size)[rank].to(dtype))
            same(x, parts[rank])
        dist.all_reduce(x, dist._make_nccl_premul_sum(torch.tensor([0.5], device="ocl")))
        same(x, (total * 0.5).to(dtype))
    z = torch.complex(values(rank, 4), values(rank + 1, 4))
    x = z.to("ocl")
    dist.all_reduce(x)
    dist.all_reduce(z)
    same(x, z)


def test_averages_and_scaled_sums(pair):
    pair(check_averages)


def check_moves(rank, size, dtype):
    mine = values(rank, 3, 2, dtype=dtype)
    every = [values(r, 3, 2, dtype=dtype) for r in range(size)]
    x = mine.to("ocl")
    dist.broadcast(x, 1)
    same(x, every[1])
    x = mine.to("ocl")
    outs = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(outs, x)
    for out, part in zip(outs, every, strict=True):
        same(out, part)
    for shape in ((size * 3, 2), (size, 3, 2)):
        out = torch.empty(shape, dtype=dtype, device="ocl")
        dist.all_gather_into_tensor(out, x)
        same(out, torch.stack([part.view(torch.uint8) for part in every]).view(dtype).reshape(shape))
    outs = [torch.empty_like(x) for _ in range(size)] if rank == 0 else None
    dist.gather(x, outs, 0)
    for out, part in zip(outs or (), every, strict=False):
        same(out, part)
    out = torch.empty_like(x)
    dist.scatter(out, [part.to("ocl") for part in every] if rank == 1 else None, 1)
    same(out, mine)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_moves(pair, dtype):
    pair(check_moves, dtype)


def test_moves_staged(staged):
    staged(check_moves, torch.float16)


def check_all_to_all(rank, size):
    x = (torch.arange(4 * size) + 100 * rank).reshape(2 * size, 2)
    out, reference = torch.empty_like(x, device="ocl"), torch.empty_like(x)
    dist.all_to_all_single(out, x.to("ocl"))
    dist.all_to_all_single(reference, x)
    same(out, reference)
    sent = [r + 1 + rank for r in range(size)]
    received = [rank + 1 + r for r in range(size)]
    x = torch.arange(3.0 * sum(sent)).reshape(-1, 3) + 1000 * rank
    out, reference = torch.empty(sum(received), 3, device="ocl"), torch.empty(sum(received), 3)
    dist.all_to_all_single(out, x.to("ocl"), received, sent)
    dist.all_to_all_single(reference, x, received, sent)
    same(out, reference)
    # Gloo itself refuses lists of several shapes.
    parts = [torch.full((r + 1, rank + 2), 10.0 * rank + r, device="ocl") for r in range(size)]
    outs = [torch.empty(rank + 1, r + 2, device="ocl") for r in range(size)]
    dist.all_to_all(outs, parts)
    for r, out in enumerate(outs):
        same(out, torch.full((rank + 1, r + 2), 10.0 * r + rank))


def test_all_to_all(pair):
    pair(check_all_to_all)


def test_all_to_all_staged(staged):
    staged(check_all_to_all)


def check_layouts(rank, size):
    """Gloo on the CPU overwrites the neighbours of a column; here they stay."""
    base = values(rank, 6, 5)
    total = sum(values(r, 6, 5) for r in range(size))
    choices = [lambda t: t[:, 2], lambda t: t[1:3], lambda t: t.t(), lambda t: t[::2, ::2], lambda t: t[0:0]]
    for choose in [*choices, lambda t: t[2:3, 4]]:  # one element is contiguous, whatever its strides are
        x, expected = base.to("ocl"), base.clone()
        choose(expected).copy_(choose(total))
        dist.all_reduce(choose(x))
        same(x, expected)
        x, expected = base.to("ocl"), base.clone()
        choose(expected).copy_(choose(values(0, 6, 5)))
        dist.broadcast(choose(x), 0)
        same(x, expected)
    x = torch.full((1, 3), rank + 1.0, device="ocl").expand(2, 3)
    outs = [torch.zeros(3, 2, device="ocl").t() for _ in range(size)]
    dist.all_gather(outs, x)  # read only: an expanded tensor is as good as any
    for r, out in enumerate(outs):
        same(out, torch.full((2, 3), r + 1.0))
    with pytest.raises(RuntimeError, match="single memory location"):
        dist.all_reduce(x)
    scalar = torch.tensor(rank + 1.0, device="ocl")
    dist.all_reduce(scalar)
    same(scalar, torch.tensor(size * (size + 1) / 2))


def test_layouts(pair):
    pair(check_layouts)


def test_layouts_staged(staged):
    staged(check_layouts)


def check_messages(rank, size):
    other = 1 - rank
    x, out = values(rank, 300, 300).to("ocl"), torch.empty(300, 300, device="ocl")
    works = [dist.isend(x, other), dist.irecv(out, other)]  # both at once: neither may wait for its turn
    for work in works:
        work.wait()
    same(out, values(other, 300, 300))
    out.zero_()
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, out, other), dist.P2POp(dist.isend, x, other)])
    for work in works:
        work.wait()
    same(out, values(other, 300, 300))
    if rank == 0:
        dist.send(x, 1, tag=7)
    else:
        out = torch.zeros(300, 600, device="ocl")[:, ::2]
        assert dist.recv(out, tag=7) == 0
        same(out, values(0, 300, 300))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "x": x[0, :3]})
    assert [o["rank"] for o in objects] == list(range(size))
    dist.barrier()
    dist.monitored_barrier()


def test_messages_objects_and_barriers(pair):
    pair(check_messages)


def test_messages_staged(staged):
    staged(check_messages)


def check_works(rank, size):
    x = torch.full((1000,), rank + 1.0, device="ocl")
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    doubled = future.wait()
    same(doubled, torch.full((1000,), 6.0))
    assert work.is_completed() and work.is_success()
    with dist._coalescing_manager(device=torch.device("ocl"), async_ops=True) as coalesced:
        for part in (x, doubled):
            dist.all_reduce(part)
    coalesced.wait()
    same(x, torch.full((1000,), 6.0))
    same(doubled, torch.full((1000,), 12.0))
    with dist._coalescing_manager():
        outs = [torch.empty(size * 2, device="ocl") for _ in range(3)]
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((2,), 10.0 * i + rank, device="ocl"))
    for i, out in enumerate(outs):
        same(out, torch.tensor([0.0, 0.0, 1.0, 1.0]) + 10 * i)
    # Order: device work before a collective is in its data, and a side stream's waits for it.
    side = torch.Stream("ocl")
    a = torch.ones(1 << 18, device="ocl")
    for _ in range(50):
        a.add_(1)
    with side:
        side.wait_stream(torch.ocl.default_stream())
        a.mul_(2)
        dist.all_reduce(a)
        a.add_(1)
    side.synchronize()
    same(a, torch.full((1 << 18,), size * 102 + 1.0))


def test_futures_coalescing_and_streams(pair):
    pair(check_works)


def test_futures_staged(staged):
    staged(check_works)


def check_errors(rank, size):
    x = torch.ones(4, device="ocl")
    with pytest.raises(NotImplementedError, match="cannot be sent to other processes"):
        dist.all_reduce(torch.eye(3, device="ocl").to_sparse())
    with pytest.raises(RuntimeError, match="non-integral dtype"):
        dist.all_reduce(x, ReduceOp.BAND)
    with pytest.raises(RuntimeError, match="Invalid scalar type"):
        dist.all_reduce(torch.ones(4).to(torch.float8_e5m2).to("ocl"))
    with pytest.raises(RuntimeError, match="times input tensor size"):
        dist.all_gather_into_tensor(x[:3], x)
    with pytest.raises(ValueError, match="invalid tensor size"):
        dist.all_gather([x[:2]] * size, x)
    with pytest.raises(RuntimeError, match="divide equally"):
        dist.all_to_all_single(x[:3], x[:3])
    with pytest.raises((RuntimeError, ValueError)):
        dist.broadcast(x, 17)
    dist.all_reduce(x)  # the group goes on
    same(x, torch.full((4,), float(size)))


def test_errors(pair):
    pair(check_errors)
