"""torch.special against the CPU's float64: unary functions over a range, polynomials by degree, incomplete gamma
functions."""

import pytest
import torch

from conformance.tolerances import assert_close
from tests.python.ops.kernels import kernels_of

# name: (from, to); J, Y and Ai are compared with an absolute error, they pass through zero
UNARY = {
    "i0": (-20, 20), "i0e": (-50, 50), "i1": (-20, 20), "i1e": (-50, 50), "bessel_j0": (-40, 40),
    "bessel_j1": (-40, 40), "bessel_y0": (0.01, 40),
    "bessel_y1": (0.01, 40), "modified_bessel_i0": (-20, 20), "modified_bessel_i1": (-20, 20),
    "modified_bessel_k0": (0.01, 20),
    "modified_bessel_k1": (0.01, 20), "scaled_modified_bessel_k0": (0.01, 50), "scaled_modified_bessel_k1": (0.01, 50),
    "airy_ai": (-10, 10),
    "spherical_bessel_j0": (-30, 30), "erfcx": (-5, 50), "log_ndtr": (-30, 10), "ndtri": (0.0001, 0.9999),
}  # fmt: skip
POLYNOMIALS = [f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


def compare(actual, expected, relative, absolute):
    assert actual.device.type == "ocl"
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=relative, atol=absolute, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, device, no_fallback):
    function = getattr(torch.special, name)
    x = torch.linspace(*UNARY[name], 999)  # no multiple of a vector's lanes
    waves = name.startswith(("bessel", "airy"))
    # the CPU's float64 J, Y and Ai have errors of 5e-7 and 3e-6 around the point where it changes series
    compare(function(x.to(device)), function(x.double()), 1e-5, 1e-5 if waves else 1e-6)
    compare(function(x.double().to(device)), function(x.double()), 1e-12, 5e-6 if waves else 1e-13)


def test_bessel_wronskian(device):
    """J1 Y0 - J0 Y1 = 2 / (pi x), which the CPU's own functions fulfil to 1e-6 only."""
    x = torch.linspace(0.1, 50, 1001, dtype=torch.float64, device=device)
    s = torch.special
    product = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    torch.testing.assert_close(product, 2 / (torch.pi * x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomial(name, device, no_fallback):
    function = getattr(torch.special, name)
    x, n = torch.linspace(-1.2, 1.2, 61, dtype=torch.float64)[:, None], torch.arange(-1, 14, dtype=torch.float64)
    rounded = x.float().double()
    doubles, floats = function(x.to(device), n.to(device)), function(x.float().to(device), n.float().to(device))
    # Each degree for itself, for the high ones are larger by far. Every step of a recurrence magnifies the errors of
    # those before it.
    for column, degree in enumerate(n.tolist()):
        steps = (degree + 2) ** 4
        assert_close(doubles[:, column], function(x, n)[:, column], terms=steps)
        assert_close(floats[:, column], function(rounded, n)[:, column], terms=steps)
    assert function(x.to(device), 3).shape == x.shape


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma(name, device, no_fallback):
    function, generator = getattr(torch.special, name), torch.Generator().manual_seed(3)
    a = torch.cat(
        [
            torch.rand(500, generator=generator) * 10,
            torch.rand(500, generator=generator) * 300,
            torch.logspace(-3, 5, 300),
        ]
    ).double()
    x = a * (0.5 + torch.rand(a.shape, generator=generator).double())
    near = a[-300:] + 2 * a[-300:].sqrt() * torch.randn(300, generator=generator).double()
    x[-300:] = near.clamp_min(0.01)
    compare(function(a.to(device), x.to(device)), function(a, x), 1e-7, 1e-8)
    compare(
        function(a.float().to(device), x.float().to(device)),
        function(a.float().double(), x.float().double()),
        3e-5,
        2e-5,
    )
    edges = torch.tensor([0.0, 1.0, -1.0, torch.inf, torch.nan], dtype=torch.float64)
    compare(function(edges[:, None].to(device), edges.to(device)), function(edges[:, None], edges), 1e-12, 1e-12)


def test_frexp(device, no_fallback):
    x = torch.tensor([0.0, -0.0, 1.0, -0.75, 8.0, 1e-20, -3e30, torch.inf, torch.nan])
    mantissa, exponent = torch.frexp(x.to(device))
    assert exponent.dtype == torch.int32
    torch.testing.assert_close(mantissa.cpu(), torch.frexp(x).mantissa, rtol=0, atol=0, equal_nan=True)
    assert exponent[:7].tolist() == torch.frexp(x).exponent[:7].tolist()


def test_power_beside_a_zero_base(device):
    """A zero or denormal base in one lane of a vector says nothing about the others."""
    for dtype in (torch.float32, torch.float64):
        base = torch.tensor([0.098, 0.0, 3.3, 1e-310, -2.0, 0.5, 7.0, 1.0] * 5, dtype=dtype)
        exponent = torch.tensor([7.34, 2.5, -1.7, 2.0, 3.0, 0.5, 1.5, 9.0] * 5, dtype=dtype)
        torch.testing.assert_close(torch.pow(base.to(device), exponent.to(device)).cpu(), torch.pow(base, exponent))
        torch.testing.assert_close(torch.pow(base.abs().to(device), 2.7).cpu(), torch.pow(base.abs(), 2.7))


POWER_ULPS = {"cpu": 1, "gpu": 16}  # of our own kernel, and what OpenCL asks of a device's


def style(device):
    return torch.ocl.get_device_properties(device).style


def test_power_of_every_special_pair(device, no_fallback):
    """Zeros, infinities, NaN, denormal and huge numbers, negative bases with integer, odd, even and broken exponents;
    signs of zeros too."""
    values = [
        0.0,
        0.5,
        1.0,
        1.0000001,
        1.5,
        2.0,
        3.0,
        17.0,
        1e-40,
        3e-39,
        1e-20,
        1e20,
        3e38,
        16777215.0,
        16777216.0,
        33554433.0,
        torch.inf,
    ]
    x = torch.tensor(values + [-v for v in values] + [torch.nan])
    base, exponent = (t.reshape(-1) for t in torch.meshgrid(x, x, indexing="ij"))
    found, expected = (
        torch.pow(base.to(device), exponent.to(device)).cpu(),
        torch.pow(base.double(), exponent.double()).float(),
    )
    torch.testing.assert_close(found, expected, rtol=POWER_ULPS[style(device)] * 2**-23, atol=0, equal_nan=True)
    numbers = ~expected.isnan()
    assert torch.equal(found[numbers].signbit(), expected[numbers].signbit())


def test_power_is_accurate(device, no_fallback):
    generator = torch.Generator().manual_seed(3)
    base = torch.exp2(40 * torch.rand(100_000, generator=generator) - 20)
    exponent = 6 * torch.rand(100_000, generator=generator) - 3
    expected = torch.pow(base.double(), exponent.double())
    error = (torch.pow(base.to(device), exponent.to(device)).cpu().double() - expected).abs() / expected
    assert error.max() < POWER_ULPS[style(device)] * 2**-23


@pytest.mark.parametrize("name", ["chebyshev_polynomial_u", "chebyshev_polynomial_w", "laguerre_polynomial_l",
                                  "legendre_polynomial_p",
                                  "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
                                  "shifted_chebyshev_polynomial_w"])  # fmt: skip
def test_polynomials_keep_nan(device, no_fallback, name):
    """Where the CPU returns a variable that it never wrote, so that the conformance suite cannot compare."""
    x = torch.tensor([float("nan"), 0.5], device=device)
    for degree in (1, 2, 5):
        assert getattr(torch.special, name)(x, degree).isnan().tolist() == [True, False]


# name: (greatest error in units in the last place, where)
ACCURATE = {
    "log": (1, "positive"),
    "log2": (2, "positive"),
    "log10": (2, "positive"),
    "expm1": (2, "small"),
    "exp": (1, "small"),
    "exp2": (1, "small"),
    "log1p": (1, "small"),
    "asinh": (2, "small"),
    "acosh": (2, "above 1"),
    "atanh": (2, "unit"),
    "lgamma": (3, "positive"),
    "tanh": (2, "small"),
    "tan": (4, "small"),
    "erfc": (4, "small"),
    "erfinv": (4, "unit"),
}


@pytest.mark.parametrize("name", ACCURATE)
def test_float32_functions_are_accurate(name, device, no_fallback):
    bound, where = ACCURATE[name]
    generator = torch.Generator().manual_seed(5)
    if where == "positive":  # all exponents, denormal numbers too, and the neighbourhood of 1
        bits = torch.randint(1, 0x7F800000, (1 << 17,), generator=generator, dtype=torch.int32)
        x = torch.cat([bits.view(torch.float32), 1 + (torch.rand(1 << 14, generator=generator) - 0.5) * 0.01])
    elif where == "above 1":
        x = 1 + torch.exp2(torch.rand(1 << 18, generator=generator) * 150 - 24)
    else:
        x = torch.rand(1 << 17, generator=generator) * 2 - 1
        x = torch.cat([x, x * 1e-20, 1 - x.abs() ** 8 * 1e-3] if where == "unit" else [x, x * 1e-20, x * 80])
    function = getattr(torch, name)
    expected = function(x.double())
    usable = expected.isfinite() & (expected.abs() < 3.4e38)
    found = function(x.to(device)).cpu()
    spacing = (
        torch.nextafter(expected.float().abs(), torch.tensor(torch.inf)).double() - expected.float().abs().double()
    )
    error = ((found.double() - expected).abs() / spacing)[usable]
    assert usable.sum() > 1 << 17 and not error.isnan().any()
    assert error.max() < bound, (error.max(), x[usable][error.argmax()])


@pytest.mark.parametrize("name", ACCURATE)
def test_float32_functions_at_special_values(name, device, no_fallback):
    values = [0.0, 1.0, 2.0, 1e-40, 1e-30, 1e30, 88.5, 88.72, 88.8, 200.0, 1000.0, 8191.0, torch.inf, torch.nan]
    x = torch.tensor(values + [-v for v in values] + [2.0**k for k in range(-20, 21)])
    function = getattr(torch, name)
    found, expected = function(x.to(device)).cpu(), function(x)
    # 2^-149 is the unit in the last place of denormal results
    torch.testing.assert_close(found, expected, rtol=ACCURATE[name][0] * 2**-23, atol=2**-149, equal_nan=True)
    numbers = ~expected.isnan()
    assert torch.equal(found[numbers].signbit(), expected[numbers].signbit())


def test_silu_backward_is_one_kernel(device, no_fallback):
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    g = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    found = torch.ops.aten.silu_backward(g.to(device), x.to(device))
    torch.testing.assert_close(found.cpu(), torch.ops.aten.silu_backward(g, x), rtol=1e-5, atol=1e-6)
    assert found.is_contiguous(memory_format=torch.channels_last)
    names = kernels_of(lambda: torch.ops.aten.silu_backward(g.to(device), x.to(device)))
    assert names is None or sum(name.startswith("elementwise") for name in names) == 1, names


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float32], ids=str)
def test_trigamma_at_the_poles_is_as_large_as_the_cpus(device, no_fallback, dtype):
    x = torch.tensor([-8, -7, -3, -1, 0, 1, 2], dtype=dtype)
    expected = torch.polygamma(1, x)
    assert expected[:4].isfinite().all()
    torch.testing.assert_close(torch.polygamma(1, x.to(device)).cpu(), expected, rtol=1e-4, atol=0)
