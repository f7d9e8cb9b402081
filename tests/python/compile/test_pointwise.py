"""Elementwise chains: types, views, masks, indices, in-place work, random numbers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import metrics
from torch._inductor.utils import run_and_get_code

from .comparison import check, on, same

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def floats(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 1000, 20011])
def test_a_chain_is_one_kernel(device, dtype, length):
    check(lambda x, y: (x * y + 1).relu() * 0.5 + x, [floats(length, dtype=dtype), floats(length, dtype=dtype)], 1)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(device, dtype):
    low = 0 if dtype is torch.uint8 else -50
    x, y = torch.randint(low, 50, (99,), dtype=dtype), torch.randint(1, 9, (99,), dtype=dtype)
    check(lambda x, y: (x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, ~x, x > y, -x, x.clamp(2, 30)), [x, y])
    check(lambda x, y: (x / y, x.float() * 0.5, x.sign(), x.abs(), x == y, torch.maximum(x, y)), [x, y])


def test_bools(device):
    x, y = torch.rand(77) > 0.5, torch.rand(77) > 0.5
    check(
        lambda x, y: (x & y, x | y, ~x, x ^ y, x.float(), x.long() + y, torch.where(x, y, ~y), x.sum(), x.any()), [x, y]
    )


def test_bools_are_ordered(device):
    x, y = torch.rand(77) > 0.5, torch.rand(77) > 0.5
    check(lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, torch.maximum(x, y), x > 0, x < 1), [x, y])


def test_conversions(device):
    x = torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 100.7, 250.2])
    types = [*INTEGERS, torch.bool, *FLOATS]
    check(lambda x: [x.to(t) for t in types], [x])
    check(lambda x: [x.long().to(t) for t in types if t.is_floating_point or t is torch.bool], [x])
    check(lambda x: (x.view(torch.int32), x.double().view(torch.int64)), [x])


UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "digamma", "erf", "erfc",
         "erfinv", "exp", "exp2", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg",
         "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan",
         "tanh", "trunc", "isnan", "isinf", "isfinite", "i0", "logit"]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions(device, dtype):
    x = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9, -0.2, 1.5, -3.25, 0.0, float("inf"), -float("inf"), float("nan")]).to(
        dtype
    )
    for name in UNARY:
        f = getattr(torch, name)
        got, eager = torch.compile(lambda x, f=f: f(x))(x.to(device)), f(x.to(device))
        torch.testing.assert_close(got, eager, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("function", ["i0e", "i1", "i1e", "ndtr", "log_ndtr", "ndtri", "erfcx", "entr"])
def test_special_functions(device, function):
    x = (torch.rand(40) * 0.98 + 0.01).to(device)
    f = getattr(torch.special, function)
    torch.testing.assert_close(torch.compile(lambda x: f(x) * 2)(x), f(x) * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_without_a_form_for_vectors(device, dtype):
    x = torch.tensor([0.0, 0.3, 1.9, 2.0, 2.1, 5.5, 8.0, 8.01, 30.0, -1.0, float("inf"), float("nan")])
    names = ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
             "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai"]  # fmt: skip
    functions = [getattr(torch.special, name) for name in names]
    check(lambda x: [f(x) for f in functions[:8]], [x], kernels=1)
    x = x.to(dtype).to(device)
    torch.testing.assert_close(
        torch.compile(lambda x: [f(x) for f in functions])(x), [f(x) for f in functions], equal_nan=True
    )


def test_binary_functions(device):
    x, y = floats(60), floats(60).abs() + 0.5
    names = [
        "atan2",
        "fmod",
        "remainder",
        "hypot",
        "copysign",
        "nextafter",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "xlogy",
    ]
    for name in names:
        f = getattr(torch, name)
        check(lambda x, y, f=f: f(x, y), [x, y])
    check(lambda x, y: (x.abs() ** y, x**2, x**3, y**-1, 2**x, torch.div(x, y, rounding_mode="floor")), [x, y])
    check(lambda x, y: (torch.polygamma(1, y), torch.special.zeta(y + 1, y), torch.igamma(y, y)), [x, y])


def test_nan_and_infinities(device):
    x = torch.tensor([float("nan"), 1.0, float("inf"), -float("inf")])
    check(lambda x: (x.clamp(0, 2), x.relu(), torch.maximum(x, x.flip(0)), x.nan_to_num(), x > 0), [x])


@pytest.mark.parametrize("inner", [1, 2, 3, 7, 8, 16, 50])
def test_broadcasts_and_orders(device, inner):
    x, row, column = floats(37, inner), floats(inner), floats(37, 1)
    check(lambda x, row, column: x * row + column, [x, row, column], 1)
    check(lambda x: x.t().contiguous() * 2, [x])
    check(lambda x: (x.t() + 1, x[::2] + 1, x[:, 1:] * 2, x.flip(0) * 2, x.roll(3, 0) * 2), [x])
    check(lambda x: torch.cat([x, x * 2], 1) + 1, [x])
    check(lambda x: F.pad(x, (1, 2, 3, 1), value=0.5) * 2, [x])


def test_views(device):
    x = floats(6, 4, 10)
    check(lambda x: (x.view(24, 10).t().reshape(-1) * 2, x.permute(2, 0, 1).contiguous(), x.unfold(2, 4, 3) + 1), [x])
    check(lambda x: x.reshape(4, 6, 10).transpose(0, 1).reshape(6, 40).softmax(-1), [x])
    check(lambda x: F.pixel_shuffle(x.view(1, 24, 10, 1), 2) + 1, [x])


def test_channels_last(device):
    x = floats(2, 6, 5, 7).to(memory_format=torch.channels_last)
    compiled = check(lambda x: x * 2 + x.mean((2, 3), keepdim=True), [x])
    assert compiled(x.to(device)).is_contiguous(memory_format=torch.channels_last)


def test_gathers_and_masks(device):
    x, i = floats(30, 12), torch.randint(-12, 12, (40,))
    check(lambda x, i: x[:, i] * 2, [x, i])
    check(lambda x, i: (x[i % 30], x.gather(1, (i % 12).view(1, 40)[:, :30].t().contiguous())), [x, i])
    check(lambda x: x.masked_fill(x > 0, -1.0).tril(), [x])
    check(lambda x: torch.where(x > 0, x, torch.arange(12, device=x.device)), [x])
    check(lambda x: F.interpolate(x.view(1, 1, 30, 12), scale_factor=1.7, mode="bilinear"), [x])
    check(lambda x: F.max_pool2d(x.view(1, 1, 30, 12), 3, 2, 1), [x])


def test_scatters(device):
    x, i = floats(50, 7), torch.randint(10, (50,))
    check(lambda x, i: torch.zeros(10, 7, device=x.device).index_add(0, i, x * 2), [x, i])
    check(lambda x, i: x.index_put((i,), x[:50] * 0 + 1), [x, i])
    for dtype in (torch.int32, torch.int64, torch.float64):
        check(lambda x, i: torch.zeros(10, dtype=x.dtype, device=x.device).scatter_add(0, i, x[:, 0] * 2),
              [(x * 10).to(dtype), i])  # fmt: skip


def test_deterministic_scatters_are_the_same_every_time(device):
    x, i = floats(5000).to(device), torch.randint(10, (5000,)).to(device)
    torch.use_deterministic_algorithms(True)
    try:
        f = torch.compile(lambda x, i: torch.zeros(10, device=x.device).index_put((i,), x * 1.1, accumulate=True))
        first = f(x, i)
        assert all(torch.equal(f(x, i), first) for _ in range(5))
    finally:
        torch.use_deterministic_algorithms(False)


def test_in_place(device):
    def f(x, y):
        x.add_(1).mul_(y)
        x[:, 2:4] = 5
        return x.sum(1)

    x, y = floats(6, 10), floats(6, 10)
    here, there = x.clone(), x.to(device)
    expected = f(here, y)
    same(torch.compile(f)(there, y.to(device)), expected)
    same(there, here)


def test_a_cpu_scalar_among_tensors_of_the_device(device):
    x, scalar = floats(50), torch.tensor(2.5)
    f = torch.compile(lambda x, s: x * s + s)
    same(f(x.to(device), scalar), x * scalar + scalar)
    same(torch.compile(lambda x, s: s * x)(x.to(device), torch.tensor(3)), 3 * x)


def test_cat_copies_nothing_twice(device):
    check(lambda x, y: torch.cat([x * 2, y + 1]), [floats(100), floats(60)])


def test_many_tensors_are_several_kernels(device):
    metrics.reset()
    check(lambda *x: sum(x) * 2, [floats(10) for _ in range(150)])
    assert 6 <= metrics.generated_kernel_count <= 15


def test_random_numbers(device):
    def f(x):
        return torch.rand_like(x), torch.randn_like(x), F.dropout(x, 0.25), torch.randint_like(x, 10)

    compiled, x = torch.compile(f), torch.ones(20000, device=device)
    torch.manual_seed(3)
    uniform, normal, dropped, integers = compiled(x)
    torch.manual_seed(3)
    for a, b in zip(compiled(x), (uniform, normal, dropped, integers), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(compiled(x)[0], uniform)
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert abs((dropped == 0).float().mean() - 0.25) < 0.02 and dropped.max() == 1 / 0.75
    assert set(integers.unique().tolist()) == set(range(10))


def test_random_numbers_as_eager_where_that_is_asked_for(device):
    x = torch.ones(1000, device=device)
    with torch._inductor.config.patch(fallback_random=True):
        torch.manual_seed(5)
        got = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))(x)
        torch.manual_seed(5)
        assert torch.equal(got, F.dropout(x, 0.5) + torch.rand_like(x))


def test_complex_numbers_stay_with_the_operators(device):
    x = torch.randn(20, dtype=torch.complex64)
    check(lambda x: (x * x.conj()).real + x.abs(), [x])


def test_large_index_in_wide_types(device):
    x = torch.arange(2**31, 2**31 + 100)
    check(lambda x: (x * 3, x // 7, x % 1000), [x])


def test_what_is_the_same_along_rows_is_computed_once_for_each(device):
    def normalise(x, mean, variance):
        return (x - mean) * (variance + 1e-5).rsqrt()

    arguments = [floats(3, 5, 40), floats(5, 1), floats(5, 1).abs()]
    check(normalise, arguments, 1)
    _, (code,) = run_and_get_code(torch.compile(normalise, dynamic=False), *on("ocl", arguments))
    if torch.ocl.get_device_properties(0).style == "cpu":
        assert code.index("sqrt(tmp") < code.index("at += 16")
    check(lambda x, i: x * i[:, None].float().sqrt() + x[i][:, :1], [floats(5, 40), torch.tensor([4, 2, 0, 1, 1])])
    changed = floats(6, 33).to(device)
    expected = changed.cpu()
    torch.compile(lambda x: x.mul_(x[:, :1].clone() + 1))(changed)
    same(changed, expected * (expected[:, :1] + 1))


def test_two_calls_write_no_kernel_again(device):
    f = torch.compile(lambda x: x.exp() * 2, dynamic=False)
    x = on(device, floats(100))
    f(x)
    built = torch.ocl.build_counts()
    f(x)
    assert torch.ocl.build_counts() == built


def test_ldexp(device):
    x, n = torch.tensor([1.0, -1.5, math.inf, 3.0, 0.0]), torch.tensor([3, -2, 4, -100, 7])
    check(torch.ldexp, [x, n], 1)
    check(torch.ldexp, [x.double(), n.int()], 1)
