"""complex32: stored as two halves, worked on in complex64.

The CPU lacks most of its operators, so that the reference is complex64.
"""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

ROWS = torch.arange(60).mul(7).remainder(37)

CASES = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "scalar": lambda x, y: x * 2.5 + 1j,
    "by real": lambda x, y: x * x.real,
    "wider": lambda x, y: x * y.to(torch.complex64),
    "magnitude": lambda x, y: x.abs(),
    "angle": lambda x, y: x.angle(),
    "exp": lambda x, y: x.exp(),
    "sqrt": lambda x, y: x.sqrt(),
    "negative": lambda x, y: -x,
    "conjugate": lambda x, y: x.conj().resolve_conj() * y.conj(),
    "reciprocal": lambda x, y: x.reciprocal(),
    "power": lambda x, y: x**2,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "equal": lambda x, y: x == y,
    "where": lambda x, y: torch.where(x.real > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(x.real > 0, 1j),
    "sum": lambda x, y: x.sum(),
    "sum along": lambda x, y: x.sum(0),
    "mean": lambda x, y: x.mean(1),
    "product": lambda x, y: x[:5].prod(0),
    "norm": lambda x, y: torch.linalg.vector_norm(x),
    "norm along": lambda x, y: torch.linalg.vector_norm(x, 1, dim=1),
    "standard deviation": lambda x, y: x.std(0),
    "any": lambda x, y: x.any(0),
    "cumulative sum": lambda x, y: x[:8].cumsum(0),
    "gather rows": lambda x, y: x[ROWS.to(x.device)],
    "index_add": lambda x, y: x.index_add(0, ROWS[:37].to(x.device), y),
    "index_put": lambda x, y: x.clone().index_put_((ROWS[:37].to(x.device),), y, accumulate=True),
    "scatter product": lambda x, y: x.scatter_reduce(0, ROWS[:37, None].expand(37, 5).to(x.device), y, "prod"),
    "concatenate": lambda x, y: torch.cat([x, y], 1),
    "transpose": lambda x, y: x.t().contiguous(),
    "flip": lambda x, y: x.flip(0).roll(1, 1),
    "triangle": lambda x, y: x.tril(),
    "identity": lambda x, y: torch.eye(4, dtype=x.dtype, device=x.device),
    "nonzero": lambda x, y: (x * (x.real > 0)).nonzero(),
    "real part": lambda x, y: x.real.clone(),
    "to float32": lambda x, y: torch.view_as_real(x).float(),
}  # fmt: skip


def narrower(dtype):
    return {torch.complex64: torch.complex32, torch.float32: torch.float16}.get(dtype, dtype)


@pytest.mark.parametrize("name", list(CASES))
def test_against_complex64(device, no_fallback, name):
    torch.manual_seed(1)
    x, y = (torch.randn(37, 5, dtype=torch.complex64).to(torch.complex32) for _ in range(2))
    actual = CASES[name](x.to(device), y.to(device))
    expected = CASES[name](x.to(torch.complex64), y.to(torch.complex64))
    assert actual.device.type == "ocl"
    if name not in ("wider", "to float32"):
        assert actual.dtype == narrower(expected.dtype)
    if expected.is_floating_point() or expected.is_complex():
        torch.testing.assert_close(actual.cpu().to(expected.dtype), expected, rtol=4e-3, atol=4e-3)
    else:
        assert torch.equal(actual.cpu(), expected)


def test_conversions_and_gradient(device, no_fallback):
    x = torch.randn(5, 3, dtype=torch.complex64)
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int32,
        torch.bool,
        torch.complex64,
        torch.complex128,
    ):
        real = x if dtype.is_complex else x.real
        source = real.to(dtype)
        half = source.to(device).chalf()
        assert half.dtype == torch.complex32 and torch.equal(
            torch.view_as_real(half).cpu(), torch.view_as_real(source.chalf())
        )
        assert torch.equal(half.to(torch.complex64).cpu(), source.chalf().to(torch.complex64))
    leaf = x.to(device).requires_grad_()
    (leaf.chalf() * 2).abs().sum().backward()
    assert leaf.grad.dtype == torch.complex64
    torch.testing.assert_close(leaf.grad.cpu(), 2 * x / x.abs(), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("call", [lambda x: x @ x.t(), torch.fft.fft, torch.sort], ids=["product", "fft", "sort"])
def test_what_has_no_kernel_says_so(device, call):
    # torch 2.15 has TypeError for sort
    with pytest.raises((NotImplementedError, RuntimeError, TypeError), match=r"ComplexHalf|complex"):
        call(torch.ones(3, 3, dtype=torch.complex32, device=device))
