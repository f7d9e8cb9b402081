"""Functions of complex numbers: infinities, NaN, signed zeros and huge parts as on the CPU; elsewhere as precise as the
CPU's."""

import itertools

import pytest
import torch

INF, NAN = float("inf"), float("nan")
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, INF, -INF, NAN, 1e30, -1e30, 1e-30, 3e38)
FUNCTIONS = [
    "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10",
    "log1p", "log2",
    "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip


def parts(z):
    return torch.view_as_real(z) if z.is_complex() else z[:, None]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(device, no_fallback, name, dtype):
    z = torch.tensor([complex(a, b) for a, b in itertools.product(PARTS, PARTS)], dtype=dtype)
    function = getattr(torch, name)
    result = function(z.to(device))
    assert result.device.type == "ocl"
    actual, expected = parts(result.cpu()), parts(function(z)).clone()
    if name == "log1p":  # of a tiny number and an infinite one the CPU says NaN, C99 infinity
        tiny = (z.real > 0) & (z.real < 1e-20) & z.imag.isinf()
        expected[tiny] = torch.stack([z.imag.abs(), z.imag.sign() * torch.pi / 2], 1)[tiny]
    same = torch.isclose(actual, expected, rtol=2e-6, atol=2e-5, equal_nan=True)
    if name in ("sqrt", "asin", "asinh", "log", "atan"):  # which have branch cuts: signs of zeros matter
        same &= (expected != 0) | (actual.signbit() == expected.signbit())
    assert same.all(), [
        (z[i].item(), actual[i].tolist(), expected[i].tolist()) for i in (~same.all(1)).nonzero().flatten().tolist()
    ]


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 0.5, 1, 3, 30])
def test_precision(device, no_fallback, scale):
    z = (torch.randn(4000, dtype=torch.complex128) * scale).to(torch.complex64)
    for name in FUNCTIONS:
        function = getattr(torch, name)
        precise, cpu, actual = (
            t.to(torch.complex128)
            for t in (function(z.to(torch.complex128)), function(z), function(z.to(device)).cpu())
        )
        kept = precise.abs() < 1e37
        error, cpu_error = (((t - precise).abs() / precise.abs())[kept].max().item() for t in (actual, cpu))
        assert error <= max(4 * cpu_error, 1e-6), (name, error, cpu_error)
