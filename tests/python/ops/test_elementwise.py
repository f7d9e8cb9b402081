"""Elementwise operators against the CPU: values, dtypes, strides, broadcasting, special values."""

import math

import pytest
import torch
import torch.nn.functional as F

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, 100.0, float("inf"), float("-inf"), float("nan")]
TOLERANCE = {
    torch.float32: 2e-6,
    torch.float64: 1e-13,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.complex64: 1e-5,
}


def compare(actual, expected):
    assert actual.device.type == "ocl"
    assert actual.dtype == expected.dtype
    tolerance = TOLERANCE.get(expected.dtype, 0)
    torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(function, *tensors):
    """function on ocl copies of the tensors gives what it gives on the tensors; the strides of the copies are
    theirs."""
    compare(function(*[t.to("ocl") if isinstance(t, torch.Tensor) else t for t in tensors]), function(*tensors))


UNARY = [
    "abs",
    "neg",
    "sign",
    "sgn",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "sigmoid",
    "relu",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "signbit",
    "logical_not",
    "nan_to_num",
    "sinc",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "remainder",
    "fmod",
    "pow",
    "atan2",
    "hypot",
    "copysign",
    "floor_divide",
    "logaddexp",
    "xlogy",
    "nextafter",
    "heaviside",
]
INTEGER_BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "maximum",
    "minimum",
    "eq",
    "lt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "pow",
    "gcd",
]
ACTIVATIONS = [
    F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.mish, F.elu, F.selu, F.celu, F.leaky_relu, F.hardsigmoid,
    F.hardswish, F.hardtanh, F.hardshrink, F.softshrink, F.softplus, F.logsigmoid, F.relu6, F.relu,
    lambda x: F.threshold(x, 0.3, -1.0), torch.sigmoid, torch.tanh, lambda x: F.glu(x, 0), lambda x: x.clamp(-0.5, 0.7),
    lambda x: x.clamp_min(0.1), F.softsign, F.tanhshrink,
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, no_fallback):
    function = getattr(torch, name)
    x = torch.cat([torch.linspace(-3, 3, 101), torch.tensor(SPECIAL)])
    check(function, x)
    check(function, torch.stack([x, x.flip(0)]).t())  # inner stride 2
    check(function, x.to(torch.bfloat16))
    if name not in ("frac", "nan_to_num", "isposinf", "isneginf"):
        check(function, torch.arange(-5, 6))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name, no_fallback):
    function = getattr(torch, name)
    special = torch.tensor(SPECIAL)
    if name == "nextafter":
        special = torch.randn(12)
    a, b = special[:, None].expand(12, 12).contiguous(), special[None].expand(12, 12)
    check(function, a, b)
    torch.manual_seed(1)
    x, y = torch.randn(5, 1, 37), torch.randn(3, 37)
    check(function, x, y)
    check(function, x, y[:, ::2].repeat(1, 2)[:, :37])
    if name not in ("nextafter", "heaviside"):
        check(lambda p, q: function(p, q.double()), x, y)
    if name not in ("nextafter",):
        check(function, x, torch.tensor(2.5))  # zero-dimensional operand


@pytest.mark.parametrize("name", INTEGER_BINARY)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_binary(name, dtype, no_fallback):
    function = getattr(torch, name)
    a = torch.tensor([-7, -3, -1, 0, 1, 2, 5, 100, 7]).to(dtype)
    b = torch.tensor([3, -2, 7, 5, 1, 3, 2, 7, 3]).to(dtype)
    if name == "pow":
        b = b.abs() % 8
    check(function, a, b)


@pytest.mark.parametrize("index", range(len(ACTIVATIONS)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_activation_and_gradient(index, dtype, no_fallback):
    function = ACTIVATIONS[index]
    torch.manual_seed(index)
    x = (torch.randn(6, 35, dtype=dtype) * 3).requires_grad_()
    y = x.detach().to("ocl").requires_grad_()
    expected, actual = function(x), function(y)
    compare(actual.detach(), expected.detach())
    weights = torch.randn(expected.shape, dtype=dtype)
    (expected * weights).sum().backward()
    (actual * weights.to("ocl")).sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits]
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_loss_and_gradient(loss, reduction, no_fallback):
    torch.manual_seed(0)
    x, target = torch.randn(7, 11).requires_grad_(), torch.rand(7, 11)
    y = x.detach().to("ocl").requires_grad_()
    expected, actual = loss(x, target, reduction=reduction), loss(y, target.to("ocl"), reduction=reduction)
    torch.testing.assert_close(actual.detach().cpu(), expected.detach())
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)


def test_promotion_uses_each_operands_own_type(no_fallback):
    i, f, h = torch.arange(-4, 5), torch.randn(9), torch.randn(9).half()
    for function in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b):
        check(function, i, f)
        check(function, f, h)
        check(function, h, i)
    check(lambda a: a + 2.5, i)
    check(lambda a: 2 - a, i)
    check(lambda a: a * True, i)
    out = torch.empty(9, dtype=torch.float64, device="ocl")
    torch.add(f.to("ocl"), i.to("ocl"), out=out)
    torch.testing.assert_close(out.cpu(), (f + i).double())


def test_booleans(no_fallback):
    a, b = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    for function in (
        lambda p, q: ~p,
        lambda p, q: p & q,
        lambda p, q: p | q,
        lambda p, q: p ^ q,
        lambda p, q: p + q,
        lambda p, q: p * q,
    ):
        check(function, a, b)
        assert function(a.to("ocl"), b.to("ocl")).sum().item() == function(a, b).sum().item()


def test_large_integers_are_exact(no_fallback):
    x = torch.tensor([2**53 + 1, -(2**62)])
    check(lambda a: a + 3, x)
    check(lambda a: a.clone().fill_(2**53 + 1), x)


def test_views_offsets_and_overlap(no_fallback):
    x = torch.randn(4, 5, 6)
    check(lambda a: a[1:, ::2, 3:] + a[:3, ::2, :3], x)
    check(lambda a: a.permute(2, 0, 1).exp() * 2, x)
    check(lambda a: a[:, :1].expand(4, 5, 6) - a, x)
    check(lambda a: a.clone().t_().mul_(3) if a.dim() == 2 else a * 3, x[0])
    y = torch.randn(8).to("ocl")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        y[1:].add_(y[:-1])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        y[:1].expand(4).add_(1)


def test_empty_and_scalar_tensors(no_fallback):
    check(lambda a: a + 1, torch.empty(0, 3))
    check(lambda a: a * a, torch.tensor(3.0))
    check(torch.exp, torch.empty(2, 0, 4))


def test_mixed_devices_are_refused():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="ocl") + torch.ones(3)


def test_where_masked_fill_lerp_addcmul(no_fallback):
    a, b, m = torch.randn(4, 9), torch.randn(9), torch.rand(4, 9) > 0.5
    check(torch.where, m, a, b)
    check(lambda m, a: torch.where(m, a, 0.5), m, a)
    check(lambda a, m: a.masked_fill(m, float("-inf")), a, m)
    check(lambda a, b: torch.lerp(a, b, 0.3), a, b)
    check(torch.lerp, a, b.expand(4, 9), torch.rand(4, 9))
    check(lambda a, b: torch.addcmul(a, a, b, value=0.7), a, b)
    check(lambda a, b: torch.addcdiv(a, a, b, value=0.7), a, b)


def test_complex(no_fallback):
    z = torch.randn(6, 5, dtype=torch.complex64)
    for function in (lambda a: a * a, lambda a: a / (a + 1), torch.exp, torch.abs,
                     torch.angle, lambda a: a.conj() * a, lambda a: a.conj().t().resolve_conj(), lambda a: a.imag.neg(),
                     torch.sqrt, lambda a: a == a):  # fmt: skip
        check(function, z)


def test_copies_between_all_types(no_fallback):
    types = [*FLOATS, *INTEGERS, torch.bool, torch.complex64]
    x = torch.tensor([0.0, 1.0, 2.6, 100.0, 7.5, 3.0])
    for source in types:
        for target in types:
            if source.is_complex and not target.is_complex:
                continue
            check(lambda a, target=target: a.to(target), x.to(source))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_to_2_ulp(name):
    """Against float64, near the multiples of pi / 2 too, where a reduction with too few digits loses everything."""
    generator = torch.Generator().manual_seed(0)
    multiples = (torch.arange(1, 5216, dtype=torch.float64) * (math.pi / 2)).float()
    x = torch.cat([torch.randn(100_000, generator=generator) * 3,
                   torch.rand(100_000, generator=generator) * 16384 - 8192, multiples,
                   torch.tensor([0.0, -0.0, 1e-30, -1e-45, 8191.9])])  # fmt: skip
    actual, expected = getattr(torch, name)(x.to("ocl")).cpu().double(), getattr(torch, name)(x.double())
    spacing = torch.nextafter(expected.abs().float(), torch.tensor(math.inf)).double() - expected.abs().float().double()
    assert ((actual - expected).abs() <= 2 * spacing).all()
    assert torch.equal(torch.signbit(actual[-5:-3]), torch.signbit(expected[-5:-3]))


def test_conversions_of_every_half(device, no_fallback):
    halves = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    x = halves.float()
    assert torch.equal(halves.to(device).float().cpu().view(torch.int32), x.view(torch.int32))
    # numbers between halves, ties among them, and beyond the largest
    numbers = x[x.isfinite()]
    x = torch.cat(
        [
            x,
            numbers * (1 + 2**-11),
            numbers * (1 + 2**-11 + 2**-20),
            numbers * (1 + 2**-12),
            torch.linspace(-7e4, 7e4, 10001),
            numbers * 2**-10,
        ]
    )
    assert torch.equal(x.to(device).half().cpu().view(torch.int16), x.half().view(torch.int16))
