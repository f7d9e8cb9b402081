"""softmax and log_softmax against the CPU."""

import pytest
import torch

from layer_checks import check, close

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((7, 10), 1), ((37, 1003), -1), ((3, 21, 5, 7), 1), ((5, 4, 33), 0), ((16,), 0), ((), 0), ((2, 0), 1)],
)
def test_values_and_gradients(device, dtype, function, shape, dim):
    half = dtype in (torch.float16, torch.bfloat16)
    check(lambda x: function(x, dim), torch.randn(shape) * 4, device=device, dtype=dtype, gradients=not half)
    if half:
        check_gradient_of_stored(device, dtype, function, shape, dim)


def check_gradient_of_stored(device, dtype, function, shape, dim):
    """The formula takes the stored result, whose rounding it magnifies where g and its mean cancel each other."""
    x = (torch.randn(shape) * 4).to(device, dtype).requires_grad_()
    result, g = function(x, dim), torch.randn(shape).to(dtype)
    result.backward(g.to(device))
    y, g = result.detach().cpu().double(), g.double()
    if function is torch.softmax:
        exact = y * (g - (g * y).sum(dim, keepdim=True))
    else:
        exact = g - y.exp() * g.sum(dim, keepdim=True)
    assert x.grad.device.type == device
    close(x.grad, exact, dtype, terms=shape[dim] if shape else 1)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_views(device, function):
    check(lambda x: function(x[:, 1:6].transpose(1, 2), -1), torch.randn(3, 9, 17), device=device, strides=False)


def test_dtype_argument(device):
    x = torch.randn(5, 11).half()
    actual = torch.softmax(x.to(device), 1, dtype=torch.float32)
    assert actual.dtype == torch.float32
    close(actual, torch.softmax(x.double(), 1), torch.float32)


def test_infinities(device):
    x = torch.tensor([[0.0, float("-inf"), 1], [float("-inf")] * 3, [float("inf"), 0, 0], [float("nan"), 0, 1]])
    for function in (torch.softmax, torch.log_softmax):
        close(function(x.to(device), 1), function(x.double(), 1), torch.float32)


def test_out(device):
    x, out = torch.randn(4, 6), torch.empty(6, 4, device=device).t()
    torch.softmax(x.to(device), 1, out=out)
    close(out, torch.softmax(x.double(), 1), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((64, 5003), 1), ((40, 16), 1), ((40, 1), 1), ((3, 17, 33), 0), ((3, 4, 5), 1), ((2, 40000), 1), ((5, 6), (0, 1))],
)
def test_logsumexp_is_as_precise_as_its_type(device, dtype, shape, dim):
    """Against float64, with infinite and NaN rows."""
    x = torch.randn(shape).to(dtype) * 20
    rows = x.view(-1, shape[-1])
    rows[0, 0] = float("inf")
    if len(rows) > 2:
        rows[1] = float("-inf")
        rows[2, -1] = float("nan")
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-13}[dtype]
    for keepdim in (False, True):
        actual, expected = torch.logsumexp(x.to(device), dim, keepdim), torch.logsumexp(x.double(), dim, keepdim)
        assert actual.dtype == dtype and actual.stride() == expected.stride()
        torch.testing.assert_close(
            actual.cpu().double(), expected, rtol=tolerance, atol=min(tolerance, 1e-6), equal_nan=True
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logsumexp_rounds_half_types_as_the_cpu(device, dtype):
    # The gradient is exp(x - r) with the stored r, which is below 16 and has an error of half an eps.
    x = torch.randn(33, 57) * 4
    assert x.logsumexp(1).abs().max() < 16
    check(lambda x: torch.logsumexp(x, 1), x, device=device, dtype=dtype, gradient={"roundings": 8 + 1})


def test_logsumexp_gradient_and_out(device):
    check(lambda x: torch.logsumexp(x, 1), torch.randn(9, 37), device=device)
    check(lambda x: torch.logsumexp(x.transpose(0, 2)[1:], 0), torch.randn(3, 9, 17), device=device, strides=False)
    x, out = torch.randn(4, 6), torch.empty(4, 2, device=device)[:, 0]
    torch.logsumexp(x.to(device), 1, out=out)
    close(out, torch.logsumexp(x.double(), 1), torch.float32)
    with pytest.raises(RuntimeError, match=r"same device|to have device"):
        torch.logsumexp(x.to(device), 1, out=torch.empty(4))
