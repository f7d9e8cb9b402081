"""Arithmetic of complex numbers, which CPU kernels compute for vectors of pairs: every length beside the vectors',
strides, broadcasts, real operands."""

import pytest
import torch

TYPES = [torch.complex64, torch.complex128]
FUNCTIONS = {
    "add": lambda a, b: a + b,
    "add with alpha": lambda a, b: torch.add(a, b, alpha=2 - 1j),
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "number": lambda a, b: (a + (1 - 2j)) * (2 + 3j),
    "squares": lambda a, b: a**2 - b**2,
    "negative": lambda a, b: -a,
    "conjugate": lambda a, b: a.conj().resolve_conj() + b.conj(),
    "reciprocal": lambda a, b: b.reciprocal(),
    "absolute": lambda a, b: a.abs(),
    "angle": lambda a, b: a.angle(),
    "real operand": lambda a, b: a * b.real + b.imag,
    "parts": lambda a, b: torch.complex(a.real.clone(), b.imag.clone()),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=2),
    "gradient of tanh": torch.ops.aten.tanh_backward,
    "filled": lambda a, b: torch.full_like(a, 1 - 2j),
}


def close(actual, expected, magnitude):
    """Within rounding of numbers of that magnitude, element by element."""
    assert actual.device.type == "ocl" and actual.dtype == expected.dtype and actual.shape == expected.shape
    epsilon = torch.finfo(expected.dtype).eps
    error = (actual.cpu() - expected).abs()
    assert (error <= 8 * epsilon * magnitude).all(), (error / epsilon / magnitude).max()


def magnitude(a, b):
    """Bounds every sum, product and quotient of FUNCTIONS where |b| is at least 0.5."""
    return (1 + a.abs()) * (1 + b.abs()) ** 2


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arithmetic(name, dtype, device, no_fallback):
    function = FUNCTIONS[name]
    for n in (1, 3, 4, 7, 8, 9, 100, 5003):
        a, b = torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
        b = b + b.sgn() * 0.5  # away from zero
        close(function(a.to(device), b.to(device)), function(a, b), magnitude(a, b))
    a, b = torch.randn(37, 53, dtype=dtype), torch.randn(37, 53, dtype=dtype)
    b = b + b.sgn() * 0.5
    views = {
        "transposed": lambda x: x.t(), "odd offset": lambda x: x[:, 1:], "every other": lambda x: x[:, ::2],
        "one row": lambda x: x[:1].expand(37, 53),
        "one column": lambda x: x[:, :1].expand(37, 53), "backwards": lambda x: x.flip(1),
    }  # fmt: skip
    for left, right in ((v, w) for v in views for w in views if views[v](a).shape == views[w](b).shape):
        x, y = views[left](a), views[right](b)
        close(function(views[left](a.to(device)), views[right](b.to(device))), function(x, y), magnitude(x, y))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_polar(dtype, device, no_fallback):
    part = torch.empty((), dtype=dtype).real.dtype
    r, angle = torch.rand(1001, dtype=part), torch.randn(1001, dtype=part) * 50
    close(torch.polar(r.to(device), angle.to(device)), torch.polar(r, angle), 1)
    out = torch.zeros(1001, 2, dtype=dtype, device=device)
    torch.polar(r.to(device), angle.to(device), out=out[:, 1])
    close(out[:, 1], torch.polar(r, angle), 1)
    assert not out[:, 0].any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_magnitude_and_division_at_the_ends_of_the_range(dtype, device, no_fallback):
    largest = torch.finfo(dtype).max
    z = torch.tensor(
        [
            complex(0.6 * largest, 0.6 * largest),
            complex(3 / largest, 4 / largest),
            complex(float("inf"), float("nan")),
            0j,
        ]
        * 5,
        dtype=dtype,
    )
    assert torch.equal(z.to(device).abs().cpu()[2::4], z.abs()[2::4]) and torch.equal(
        z.to(device).abs().cpu()[3::4], z.abs()[3::4]
    )
    torch.testing.assert_close(z.to(device).abs().cpu(), z.abs(), rtol=1e-6, atol=0)
    assert (
        not torch.view_as_real(torch.ones(9, dtype=dtype, device=device) / torch.zeros(9, dtype=dtype, device=device))
        .isfinite()
        .all(1)
        .any()
    )
