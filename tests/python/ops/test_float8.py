"""Types that no kernel computes in: 8-bit and 4-bit floating numbers are converted as the CPU does it, moved bit by
bit, and multiplied with scales."""

import re

import pytest
import torch

from conformance.tolerances import assert_close

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
MOVED = [*FLOAT8, torch.float4_e2m1fn_x2]
WIDE = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool]


def all_bits(dtype):
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def same_bits(actual, expected):
    assert actual.device.type == "ocl" and actual.dtype == expected.dtype and actual.shape == expected.shape
    assert torch.equal(actual.view(torch.uint8).cpu(), expected.view(torch.uint8))


def agree(actual, expected):
    assert actual.device.type == "ocl" and actual.dtype == expected.dtype
    assert torch.equal(actual.cpu().nan_to_num(nan=12345.0), expected.nan_to_num(nan=12345.0))


def numbers():
    """float32 numbers of every size and sign, the middle between neighbours and those beside it included."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randint(-(2**31), 2**31 - 1, (20000,), generator=generator).int().view(torch.float32)
    moderate = torch.randn(20000, generator=generator) * torch.logspace(-6, 5, 20000)
    middles = [t for dtype in FLOAT8[:4] for t in [all_bits(dtype).float()]]
    exact = torch.cat([t[t.isfinite()] for t in middles]).sort().values
    halves = (exact[1:] + exact[:-1]) / 2
    near = [torch.nextafter(halves, torch.tensor(inf)) for inf in (float("inf"), float("-inf"))]
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 448, 464, 465, 480, 1e30, -1e30])
    return torch.cat([patterns, moderate, exact, halves, *near, special])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_to_every_type(dtype, device, no_fallback):
    x = all_bits(dtype)
    for wide in WIDE[:4]:
        agree(x.to(device).to(wide), x.to(wide))
    agree(x.to(device).bool().int(), x.bool().int())
    finite = x[x.float().isfinite() & (x.float().abs() < 2e9)]
    for whole in (torch.int32, torch.int64):
        agree(finite.to(device).to(whole), finite.to(whole))
    assert torch.equal(x.to(device).to("cpu", torch.float32).nan_to_num(), x.float().nan_to_num())


@pytest.mark.parametrize("dtype", FLOAT8)
def test_rounding(dtype, device, no_fallback):
    x = numbers()
    same_bits(x.to(device).to(dtype), x.to(dtype))
    same_bits(x.double().to(device).to(dtype), x.double().to(dtype))
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    for half in (torch.float16, torch.bfloat16):
        same_bits(every.view(half).to(device).to(dtype), every.view(half).to(dtype))
    whole = torch.arange(-300, 300)
    same_bits(whole.to(device).to(dtype), whole.to(dtype))
    same_bits(torch.tensor([True, False]).to(device).to(dtype), torch.tensor([True, False]).to(dtype))
    strided = x[: 3 * 999].reshape(3, 999)  # no multiple of a vector's lanes
    same_bits(strided.to(device).t().to(dtype).contiguous(), strided.t().to(dtype).contiguous())
    same_bits(x.to(device=device, dtype=dtype), x.to(dtype))


MOVES = {
    "clone": lambda x, d: x.clone(),
    "transposed": lambda x, d: x.transpose(0, 2).contiguous(),
    "cat": lambda x, d: torch.cat([x, x.flip(1)], 1) if d == "ocl" else torch.cat([x, of_flip(x, 1)], 1),
    "stack": lambda x, d: torch.stack([x, x], 1),
    "index": lambda x, d: x[:, torch.tensor([1, 0, 1], device=d)],
    "mask": lambda x, d: x[mask(d)],
    "masked_select": lambda x, d: x.masked_select(mask(d)),
    "index_select": lambda x, d: x.index_select(1, torch.tensor([2, 0], device=d)),
    "where": lambda x, d: torch.where(mask(d), x, x.roll(1, 2)),
    "roll": lambda x, d: x.roll(1, 1),
    "rot90": lambda x, d: x.rot90(),
    "repeat": lambda x, d: x.repeat(2, 1, 2),
    "repeat_interleave": lambda x, d: x.repeat_interleave(2, 1),
    "zeros": lambda x, d: torch.zeros(5, dtype=x.dtype, device=d),
    "zeros_like": lambda x, d: torch.zeros_like(x),
    "setitem": lambda x, d: set_row(x.clone()),
    "unfold": lambda x, d: x.unfold(2, 2, 1).clone(),
    "diag_embed": lambda x, d: torch.diag_embed(x),
    "channels_last": lambda x, d: x[:, :, :, None].contiguous(memory_format=torch.channels_last),
    "embedding": lambda x, d: torch.nn.functional.embedding(torch.tensor([2, 0, 2], device=d), x[0]),
}
FILLS = {
    "full": lambda x, d: torch.full((5,), 1.5, dtype=x.dtype, device=d),
    "ones": lambda x, d: torch.ones(5, dtype=x.dtype, device=d),
    "fill_": lambda x, d: x.clone().fill_(0.3),
    "fill_tensor": lambda x, d: x.clone().fill_(torch.tensor(0.3)),
    "new_full": lambda x, d: x.new_full((3, 2), 2.0),
    "pad": lambda x, d: torch.nn.functional.pad(x, (1, 2), value=1.0),
    "eye": lambda x, d: torch.eye(4, dtype=x.dtype, device=d),
}  # fmt: skip
# What the CPU does for other types of one byte only.
MORE_MOVES = {
    "gather": lambda x, d: x.gather(1, torch.ones(2, 3, 4, dtype=torch.long, device=d)),
    "take": lambda x, d: x.take(torch.tensor([23, 0, 5], device=d)),
    "flip": lambda x, d: x.flip(0, 2),
    "masked_scatter": lambda x, d: x.masked_scatter(mask(d), x.flip(0)),
    "index_put": lambda x, d: x.clone().index_put_((torch.tensor([1, 0], device=d),), x),
    "index_copy": lambda x, d: x.index_copy(1, torch.tensor([2, 0], device=d), x[:, :2]),
    "scatter": lambda x, d: x.scatter(1, torch.tensor([2, 0, 1], device=d).view(1, 3, 1).expand(2, 3, 4), x),
    "put": lambda x, d: x.clone().put_(torch.tensor([1, 20], device=d), x.flatten()[:2]),
    "tril": lambda x, d: x.tril(),
}


def mask(device):
    return (torch.arange(24).reshape(2, 3, 4) % 3 == 0).to(device)


def of_flip(x, dim):
    return x.view(torch.uint8).flip(dim).view(x.dtype)


def set_row(x):
    x[:, 1] = x[:, 0]
    return x


def sample(dtype):
    return (torch.arange(24, dtype=torch.uint8) * 11).reshape(2, 3, 4).view(dtype)


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", MOVED)
def test_moves_bits(dtype, name, device, no_fallback):
    x = sample(dtype)
    if dtype is torch.float4_e2m1fn_x2:  # of which the CPU moves some only
        expected = MOVES[name](x.view(torch.uint8), "cpu").view(dtype)
    else:
        expected = MOVES[name](x, "cpu")
    same_bits(MOVES[name](x.to(device), device), expected)


@pytest.mark.parametrize("name", MORE_MOVES)
@pytest.mark.parametrize("dtype", MOVED)
def test_moves_bits_that_the_cpu_does_not(dtype, name, device, no_fallback):
    x = sample(dtype)
    same_bits(MORE_MOVES[name](x.to(device), device), MORE_MOVES[name](x.view(torch.uint8), "cpu").view(dtype))


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_fills(dtype, name, device, no_fallback):
    x = sample(dtype)
    try:
        expected = FILLS[name](x, "cpu")
    except (RuntimeError, NotImplementedError):
        expected = FILLS[name](x.float(), "cpu").to(dtype)
    same_bits(FILLS[name](x.to(device), device), expected)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_masked_fill_and_scatter_of_numbers(dtype, device, no_fallback):
    x, where = sample(dtype), mask("cpu")
    expected = torch.where(where, torch.tensor(0.3).to(dtype), x)
    same_bits(x.to(device).masked_fill(where.to(device), 0.3), expected)
    index = torch.tensor([0], device=device)
    filled = x.clone()
    filled[:, 0] = torch.full((2, 4), 0.3).to(dtype)
    same_bits(x.to(device).index_fill(1, index, 0.3), filled)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_questions(dtype, device, no_fallback):
    x = all_bits(dtype)
    y = x.to(device)
    for question in (torch.isnan, lambda t: t == t, lambda t: t != t.roll(1), torch.all, torch.any):
        assert torch.equal(question(y).cpu(), question(x))
    assert torch.equal(y, y.clone()) == torch.equal(x, x.clone())
    assert y[70].item() == x[70].item()
    assert str(y.cpu()) == str(x) and str(y).replace(", device='ocl:0'", "").split() == str(x).split()


@pytest.mark.parametrize("dtype", FLOAT8)
def test_arithmetic_is_refused(dtype, device):
    x = sample(dtype).to(device)
    for call in (lambda: x + x, x.sum, x.sort, lambda: torch.exp(x), lambda: x[0] @ x[0].t(),
                 lambda: x.index_put((torch.tensor([0], device=device),), x[:1], accumulate=True),
                 lambda: x.scatter_add(1, torch.zeros(2, 3, 4, dtype=torch.long, device=device), x)):  # fmt: skip
        with pytest.raises(NotImplementedError):
            call()


# ---- products with scales


def factors(m, k, n, dtypes=(torch.float8_e4m3fn, torch.float8_e4m3fn)):
    a, b = torch.randn(m, k).to(dtypes[0]), torch.randn(n, k).to(dtypes[1])
    return a, b.t()


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtypes", [(torch.float8_e4m3fn,) * 2, (torch.float8_e5m2, torch.float8_e4m3fn)])
def test_scaled_mm(dtypes, out_dtype, rows, device, no_fallback):
    a, b = factors(33, 80, 47, dtypes)
    scale_a = torch.rand(33, 1) + 0.5 if rows else torch.tensor(0.37)
    scale_b = torch.rand(1, 47) + 0.5 if rows else torch.tensor(1.9)
    bias = torch.randn(47)
    exact = (a.double() @ b.double()) * scale_a * scale_b
    on = [t.to(device) for t in (a, b, scale_a, scale_b)]
    assert_close(torch._scaled_mm(*on, out_dtype=out_dtype), exact, out_dtype, terms=80)
    biased = torch._scaled_mm(*on, bias=bias.to(device), out_dtype=out_dtype)
    assert biased.device.type == "ocl"
    assert_close(biased, exact + bias, out_dtype, terms=80)
    out = torch.empty(33, 47, dtype=out_dtype, device=device)
    torch._scaled_mm(*on, out_dtype=out_dtype, out=out)
    assert_close(out, exact, out_dtype, terms=80)
    scaled = torch.nn.functional.scaled_mm
    kind = torch.nn.functional.ScalingType.RowWise if rows else torch.nn.functional.ScalingType.TensorWise
    assert_close(scaled(on[0], on[1], on[2], kind, on[3], kind, output_dtype=out_dtype), exact, out_dtype, terms=80)


def test_scaled_mm_of_eight_bits(device, no_fallback):
    a, b = factors(16, 32, 16)
    one = torch.ones(())
    same_bits(torch._scaled_mm(*(t.to(device) for t in (a, b, one, one))), (a.float() @ b.float()).to(a.dtype))


@pytest.mark.parametrize("make", [
    lambda a, b, s: (a.float(), b, s, s),
    lambda a, b, s: (a, b[:3], s, s),
    lambda a, b, s: (a, b, s.double(), s),
    lambda a, b, s: (a, b, s, s.expand(3)),
    lambda a, b, s: (a, b, s.expand(16), s.expand(16)),
])  # fmt: skip
def test_scaled_mm_errors(make, device):
    a, b = factors(16, 32, 16)
    bad = make(a, b, torch.ones(()))
    with pytest.raises((ValueError, RuntimeError)) as expected:
        torch._scaled_mm(*bad)
    with pytest.raises(type(expected.value), match=re.escape(str(expected.value).splitlines()[0][:30])):
        torch._scaled_mm(*(t.to(device) for t in bad))


def grouped_case(name):
    """(a, b, scale_a, scale_b, offs, exact result)"""
    m, k, n, groups = 24, 32, 20, 3
    random = lambda *sizes: torch.randn(*sizes).to(torch.float8_e4m3fn)
    if name == "rows":
        a, b, offs = random(m, k), random(groups, n, k).transpose(1, 2), torch.tensor([5, 5, 24], dtype=torch.int32)
        sa, sb = torch.rand(m) + 0.5, torch.rand(groups, n) + 0.5
        cuts = [(0, 5), (5, 5), (5, 24)]
        parts = [(a[f:t].double() @ b[g].double()) * sa[f:t, None] * sb[g] for g, (f, t) in enumerate(cuts)]
        return a, b, sa, sb, offs, torch.cat(parts)
    if name == "batches":
        a, b = random(groups, m, k), random(groups, n, k).transpose(1, 2)
        sa, sb = torch.rand(groups, m) + 0.5, torch.rand(groups, n) + 0.5
        return a, b, sa, sb, None, (a.double() @ b.double()) * sa[:, :, None] * sb[:, None]
    if name == "columns":
        a, b, offs = random(groups, m, k), random(n, k).t(), torch.tensor([7, 11, 20], dtype=torch.int32)
        sa, sb = torch.rand(groups, m) + 0.5, torch.rand(n) + 0.5
        cuts = [(0, 7), (7, 11), (11, 20)]
        parts = [(a[g].double() @ b[:, f:t].double()) * sa[g, :, None] * sb[f:t] for g, (f, t) in enumerate(cuts)]
        return a, b, sa, sb, offs, torch.cat(parts, 1)
    a, b, offs = random(m, k), random(n, k).t(), torch.tensor([8, 16, 32], dtype=torch.int32)
    sa, sb = torch.rand(groups * m) + 0.5, torch.rand(groups * n) + 0.5
    cuts = [(0, 8), (8, 16), (16, 32)]
    scales = [sa[g * m : (g + 1) * m, None] * sb[g * n : (g + 1) * n] for g in range(groups)]
    parts = [(a[:, f:t].double() @ b[f:t].double()) * scales[g] for g, (f, t) in enumerate(cuts)]
    return a, b, sa, sb, offs, torch.stack(parts)


@pytest.mark.parametrize("name", ["rows", "batches", "columns", "depth"])
def test_scaled_grouped_mm(name, device, no_fallback):
    *arguments, exact = grouped_case(name)
    on = [None if t is None else t.to(device) for t in arguments]
    result = torch._scaled_grouped_mm(*on, out_dtype=torch.bfloat16)
    assert result.device.type == "ocl"
    assert_close(result, exact, torch.bfloat16, terms=32)


def test_scaled_grouped_mm_errors(device):
    a, b, sa, sb, offs, _ = grouped_case("rows")
    a, b, sa, sb, offs = (t.to(device) for t in (a, b, sa, sb, offs))
    for bad in [(a, b, sa, sb), (a, b, sa, sb, offs.long()), (a, b, sa[:5], sb, offs), (a, b, sa, sb, offs.flip(0)),
                (a.float(), b, sa, sb, offs)]:  # fmt: skip
        with pytest.raises(RuntimeError):
            torch._scaled_grouped_mm(*bad)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_negative_numbers_wrap_around_in_unsigned_types(dtype, device, no_fallback):
    x = torch.arange(-3000, 3000) * 0.37
    for source in (x, x.double(), x.to(torch.bfloat16)):
        converted = source.to(device).to(dtype)
        assert converted.device.type == "ocl" and torch.equal(converted.cpu(), source.to(dtype))
