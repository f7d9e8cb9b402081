"""Quotients, remainders and rounding to whole numbers, which CPU kernels compute for whole vectors."""

import math

import pytest
import torch

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
INTEGER_FUNCTIONS = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "gcd": torch.gcd,
}


def integers(dtype, count=1003):
    """Pairs (dividend, divisor) of numbers of every magnitude and of neighbours of multiples, without what
    overflows."""
    limits = torch.iinfo(dtype)
    for bits in range(2, limits.bits + 1, 1 if limits.bits < 64 else 3):
        low, high = max(limits.min, -(2 ** (bits - 1))), min(limits.max, 2 ** (bits - 1) - 1)
        a, b = (torch.randint(low, high, (count,), dtype=dtype) for _ in range(2))
        yield a, torch.where((b == 0) | (b == -1), torch.ones_like(b), b)
    factor, divisor = torch.randint(1, 11, (count,), dtype=dtype), torch.randint(2, 12, (count,), dtype=dtype)
    for beside in (-1, 0, 1):
        yield factor * divisor + beside, divisor
    edges = torch.tensor([limits.min, limits.max, limits.max - 1, limits.max // 2, 1, 0], dtype=dtype).repeat(20)
    yield edges, torch.tensor([limits.max, 1, 2, 3, 7, limits.max // 2 + 1], dtype=dtype).repeat_interleave(20)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_FUNCTIONS)
def test_integers(name, dtype, device, no_fallback):
    function = INTEGER_FUNCTIONS[name]
    for a, b in integers(dtype):
        result = function(a.to(device), b.to(device))
        assert result.device.type == "ocl" and result.dtype == dtype
        wrong = result.cpu() != function(a, b)
        assert not wrong.any(), (a[wrong][:5], b[wrong][:5], result.cpu()[wrong][:5])


def test_division_by_minus_one_wraps(device, no_fallback):
    a = torch.tensor([-128, 127, 5], dtype=torch.int8).repeat(11)
    assert torch.equal(torch.div(a.to(device), -1, rounding_mode="trunc").cpu(), -a)
    assert not torch.remainder(a.to(device), -1).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_remainders_of_floats_are_exact(dtype, device, no_fallback):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4001, generator=generator).to(dtype)
    scale = 10.0 ** torch.randint(-9, 9, (4001,), generator=generator).to(dtype)
    whole = torch.randint(-30, 30, (4001,), generator=generator).to(dtype) * 0.1
    for x, divisor in (
        (a, a.flip(0)),
        (a * scale, a.flip(0)),
        (whole, torch.full_like(a, 0.1)),
        (a * scale, a.flip(0) / scale),
        (a, torch.full_like(a, math.inf)),
    ):
        y = torch.where(divisor == 0, torch.ones_like(divisor), divisor)
        expected = torch.tensor([math.fmod(p, q) for p, q in zip(x.tolist(), y.tolist(), strict=True)], dtype=dtype)
        result = torch.fmod(x.to(device), y.to(device)).cpu()
        assert torch.equal(result, expected) and torch.equal(result.signbit(), expected.signbit())
        shifted = torch.where((expected != 0) & ((y < 0) != (expected < 0)), expected + y, expected)
        assert torch.equal(torch.remainder(x.to(device), y.to(device)).cpu(), shifted)
    undefined = torch.fmod(
        torch.tensor([1.0, math.inf, math.nan] * 7, dtype=dtype, device=device),
        torch.tensor([0.0, 1.0, 2.0] * 7, dtype=dtype, device=device),
    )
    assert undefined.isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "frac"])
def test_rounding(name, dtype, device, no_fallback):
    values = [
        0.0,
        0.5,
        1.5,
        2.5,
        0.49999997,
        8388607.5,
        8388609.0,
        4503599627370495.5,
        1e10,
        1e30,
        math.inf,
        math.nan,
        1e-40,
        0.9,
        1.1,
    ]
    x = torch.tensor(values + [-value for value in values], dtype=dtype)
    x = torch.cat([x, torch.randn(501, dtype=dtype) * 100])
    function = getattr(torch, name)
    expected, result = function(x), function(x.to(device)).cpu()
    same = (expected == result) & (expected.signbit() == result.signbit()) | (expected.isnan() & result.isnan())
    assert same.all(), (x[~same], expected[~same], result[~same])
