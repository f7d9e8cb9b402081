"""scatter, scatter_reduce, index_add, index_reduce: agreement with the CPU, gradients, NaN, determinism."""

import pytest
import torch

from conftest import without_fallback
from layer_checks import check


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter_and_its_gradients(dim, device):
    index = torch.randint(0, 5, (5, 4, 5))
    order = torch.argsort(torch.rand(5, 5, 5), dim)[:5, :4, :5] % 5  # unique along dim: the written value is defined
    x, src = torch.randn(7, 6, 8), torch.randn(5, 4, 5)  # gradients are defined for src of index's shape
    check(lambda x, s: x.scatter_add(dim, index.to(x.device), s), x, src)
    check(lambda x: x.scatter(dim, index.to(x.device), 3.5), x)
    if dim == 0:
        check(lambda x, s: x.scatter(0, order.to(x.device), s), x, src)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_reductions(reduce, include_self, dtype, device):
    x, src = torch.randint(-4, 5, (6, 7)).to(dtype), torch.randint(-4, 5, (5, 9)).to(dtype)
    index = torch.randint(0, 7, (5, 9))
    expected = x.scatter_reduce(1, index, src, reduce, include_self=include_self)
    rows = torch.tensor([0, 3, 3, 5, 0])
    by_rows = x.index_reduce(0, rows, src[:, :7], {"sum": "mean"}.get(reduce, reduce), include_self=include_self)
    with without_fallback():
        actual = x.to(device).scatter_reduce(1, index.to(device), src.to(device), reduce, include_self=include_self)
        rows_actual = x.to(device).index_reduce(
            0, rows.to(device), src[:, :7].to(device), {"sum": "mean"}.get(reduce, reduce), include_self=include_self
        )
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(rows_actual.cpu(), by_rows)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool],
    ids=str,
)
def test_index_add(dtype, device):
    x, src, index = (
        torch.randint(0, 3, (9, 13)).to(dtype),
        torch.randint(0, 3, (20, 13)).to(dtype),
        torch.randint(0, 9, (20,)),
    )
    expected = x.index_add(0, index, src)
    with without_fallback():
        actual = x.to(device).index_add(0, index.to(device), src.to(device))
        scaled = x.to(device).index_add(0, index.to(device), src.to(device), alpha=2) if dtype != torch.bool else None
    assert torch.equal(actual.cpu(), expected)
    if scaled is not None:
        assert torch.equal(scaled.cpu(), x.index_add(0, index, src, alpha=2))


def test_nan_ends_and_propagates(device):
    index, src = torch.arange(5000) % 3, torch.ones(5000)
    src[100], src[101] = float("nan"), float("inf")
    out = torch.zeros(3, device=device).scatter_add_(0, index.to(device), src.to(device)).cpu()
    assert out[1].isnan() and out[2] == float("inf") and out[0] == 1667
    top = torch.zeros(3, device=device).scatter_reduce_(0, index.to(device), src.to(device), "amax").cpu()
    assert top[1].isnan() and top[2] == float("inf") and top[0] == 1


def test_deterministic_results_repeat(device, deterministic):
    index, src = torch.randint(0, 11, (20000,)).to(device), torch.randn(20000).to(device)
    runs = [torch.zeros(11, device=device).scatter_add(0, index, src).cpu() for _ in range(3)]
    assert torch.equal(runs[0], runs[1]) and torch.equal(runs[0], runs[2])
    torch.testing.assert_close(runs[0], torch.zeros(11).scatter_add(0, index.cpu(), src.cpu()), rtol=1e-4, atol=1e-3)


def test_strided_operands(device):
    x, src, index = torch.randn(8, 10), torch.randn(10, 8), torch.randint(0, 8, (10, 8))
    check(lambda x, s: x.t().scatter_add(1, index.to(x.device), s), x, src)
    check(lambda x, s: x.scatter_add(0, index.to(x.device).t(), s.t()), x, src)
    check(lambda x, s: x.index_add(1, torch.tensor([3, 3, 0], device=x.device), s.t()[:, ::4]), x, src)
