"""Cumulative operators against the CPU, without the fallback."""

import pytest
import torch

OPS = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: (1 + x * 0.01).cumprod(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "cummax": lambda x, d: x.cummax(d),
    "cummin": lambda x, d: torch.where(x > 2, torch.nan, x).cummin(d),
}
LAYOUTS = {
    "contiguous": lambda: torch.randn(37, 53, 11),
    "transposed": lambda: torch.randn(11, 53, 37).transpose(0, 2),
    "sliced": lambda: torch.randn(40, 60, 30)[3:40:2, 5:58, 1:30:3],
    "long": lambda: torch.randn(3, 2, 30011),
}


def compare(function, x):
    expected, actual = function(x), function(x.to("ocl"))
    if isinstance(expected, torch.Tensor):
        expected, actual = [expected], [actual]
    # The CPU adds float32 in float64; GPU-style kernels add in float32, which cannot know a running sum better than to
    # its last bits.
    unit = 0 if torch.ocl.get_device_properties().style == "cpu" else 2 * torch.finfo(torch.float32).eps
    for e, a in zip(expected, actual):
        largest = e.nan_to_num().abs().max().item() if e.dtype == torch.float32 and e.numel() else 0
        bound = {"rtol": 1e-5, "atol": max(1e-5, unit * largest)} if e.is_floating_point() else {}
        torch.testing.assert_close(a.cpu(), e, equal_nan=True, **bound)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_dims(name, layout, no_fallback):
    x = LAYOUTS[layout]()
    for dim in range(3):
        compare(lambda t: OPS[name](t, dim), x)


def test_types_and_outputs(no_fallback):
    integers = torch.randint(-9, 9, (31, 47))
    compare(lambda t: t.cumsum(0), integers.int())
    compare(lambda t: t.cumsum(1), integers > 0)
    compare(lambda t: t.cumsum(1, dtype=torch.float64), torch.randn(31, 47))
    compare(lambda t: t.clone().cumsum_(0), torch.randn(31, 47))
    compare(lambda t: torch.cumsum(t, 0, out=torch.empty(47, 31, device=t.device).t()), torch.randn(31, 47))
    compare(lambda t: t.cumsum(0), torch.randn(5, 7, dtype=torch.complex64))
    compare(lambda t: t.cumsum(0), torch.tensor(2.0))
    compare(lambda t: t.cumsum(0), torch.zeros(0, 3))


def test_complex_products_overflow_as_on_the_cpu(device, no_fallback):
    """complex64 is carried in complex128: a product in float32 would give inf - inf = NaN where the CPU has an
    infinity."""
    x = torch.full((60,), 3 + 4j, dtype=torch.complex64)
    expected, actual = x.cumprod(0), x.to(device).cumprod(0)
    assert actual.device.type == "ocl" and expected.real.isinf().any()
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
