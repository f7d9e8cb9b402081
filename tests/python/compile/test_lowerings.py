"""Operators that are lowered otherwise than upstream lowers them."""

import pytest
import torch
from torch._inductor import metrics

from .comparison import check, on, same

pytestmark = pytest.mark.feature("Inductor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floor_division_is_that_of_eager(dtype):
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([inf, -inf, nan, 1.0, -1.0, 5.5, -5.5, 0.0, -0.0, 3e38, 6e-5], dtype=dtype)[:, None]
    b = torch.tensor([2.0, 0.1, -0.1, 0.0, -0.0, inf, -inf, 3.0], dtype=dtype)

    def divide(a, b):
        return a // b, torch.div(a, b, rounding_mode="floor"), a // 2, torch.floor_divide(a, 0.1)

    expected = divide(a, b)
    compiled = torch.compile(divide)(*on("ocl", (a, b)))
    same(compiled, expected)
    for actual, want in zip(compiled, expected, strict=True):
        numbers = ~want.isnan()
        assert torch.equal(actual.cpu().signbit()[numbers], want.signbit()[numbers])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.fmod(y, 0.7) + x.sin(),
        lambda x, y: torch.remainder(y, x) * x.exp(),
        lambda x, y: y // 0.3 + x.tanh(),
        lambda x, y: torch.erfinv(torch.tanh(y)) + x.sin(),
        lambda x, y: torch.special.ndtr(y) + torch.polygamma(1, y.abs() + 1) * x.log1p(),
        lambda x, y: torch.special.i0(y) + torch.frexp(y)[0] + x.half().sigmoid(),
    ],
)
def test_functions_of_float32_and_float64_in_one_graph(function):
    x, y = torch.rand(3, 70) + 0.5, torch.randn(70, dtype=torch.float64) * 3
    compiled = torch.compile(function)(*on("ocl", (x, y)))
    expected = function(x, y)
    bound = 1e-3 if "half" in function.__code__.co_names else 4e-7  # one function is of that type
    assert compiled.dtype == expected.dtype == torch.float64
    torch.testing.assert_close(compiled.cpu(), expected, rtol=bound, atol=bound)
    assert torch.ocl.fallbacks() == {}


def test_functions_of_float64_alone_stay_in_one_kernel():
    y = torch.randn(70, dtype=torch.float64) * 3
    check(lambda y: torch.special.ndtr(torch.fmod(y, 0.7) + torch.special.i0(y)).sin(), (y,), kernels=1)


def test_with_cpp_wrapper_kernels_are_generated_all_the_same(device):
    """Forward and backward: the latter is compiled when the patch is over."""
    start, x = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)), torch.randn(7, 12)
    start(x).square().sum().backward()
    expected = [p.grad.clone() for p in start.parameters()]
    start.zero_grad()
    start.to(device)
    metrics.reset()
    with torch._inductor.config.patch(cpp_wrapper=True):
        loss = torch.compile(start)(x.to(device)).square().sum()
    assert metrics.generated_kernel_count > 0
    metrics.reset()
    loss.backward()
    assert metrics.generated_kernel_count > 0
    same([p.grad for p in start.parameters()], expected)
    assert torch.ocl.fallbacks() == {}


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.select_scatter(x, x.select(2, 0), 2, 16) + 2.5, lambda x: torch.diff(x).var(1)],
    ids=["pointwise", "reduction"],
)
def test_sizes_that_only_the_length_of_a_row_names(function):
    """Of transposed inputs whose sizes are arguments."""
    for sizes in ((17, 8, 9), (17, 20, 33)):
        check(function, (torch.randn(sizes).transpose(0, 2),), dynamic=True)


def test_additions_with_a_factor_keep_it():
    """Next to a product of matrices, which Inductor makes one operator with an addition."""

    def function(a, b, c):
        return torch.add(a, b @ c, alpha=0.75), torch.add(b @ c, a, alpha=-2), torch.sub(a, c @ b, alpha=0.5)

    check(function, torch.randn(3, 8, 8).unbind())

    def step(a, b, c):
        loss = sum(value.square().sum() for value in function(a, b, c))
        return torch.autograd.grad(loss, (a, b, c))

    check(step, [value.requires_grad_() for value in torch.randn(3, 4, 4).unbind()])
