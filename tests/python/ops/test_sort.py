"""Sorts, selections, distinct values, searches and histograms against the CPU, without the fallback."""

import pytest
import torch


def compare(function, *inputs, **tolerance):
    expected = function(*inputs)
    actual = function(*[x.to("ocl") for x in inputs])
    if isinstance(expected, torch.Tensor):
        expected, actual = [expected], [actual]
    for e, a in zip(expected, actual):
        torch.testing.assert_close(a.cpu(), e, equal_nan=True, **(tolerance if e.is_floating_point() else {}))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool],
)
def test_sort(dtype, descending, no_fallback):
    x = torch.randint(0, 2 if dtype == torch.bool else 90, (17, 33, 5)).to(dtype)
    for dim in range(3):
        compare(lambda t: t.sort(dim=dim, descending=descending, stable=True), x)
    compare(lambda t: t.flatten().argsort(descending=descending, stable=True), x)


def test_sort_of_long_rows(no_fallback):
    x = torch.randn(2, 50021)
    x[0, 77] = torch.nan
    compare(lambda t: t.sort(stable=True), x)
    compare(lambda t: t.t().sort(dim=0, descending=True, stable=True), x)
    compare(lambda t: t[0].sort(stable=True), x)


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest, no_fallback):
    for shape, k in (((3, 9001), 5), ((40, 67), 20), ((5,), 5), ((7, 20011), 400)):
        compare(lambda t: t.topk(k, largest=largest), torch.randperm(torch.Size(shape).numel()).reshape(shape).float())


def test_selections(no_fallback):
    x = torch.randn(31, 17, 8)
    x[3, 4, 5] = torch.nan
    for dim in range(3):
        compare(lambda t: t.kthvalue(3, dim), x)
        compare(lambda t: t.median(dim), x)
        compare(lambda t: t.nanmedian(dim, keepdim=True), x)
        compare(lambda t: t.nan_to_num().quantile(0.3, dim), x)
        compare(lambda t: t.mode(dim)[0], (x.nan_to_num() * 3).int())
    compare(lambda t: (t.median(), t.nanmedian()), x)
    compare(lambda t: t.median(0), torch.tensor(3.0))


def test_unique(no_fallback):
    x = torch.randint(-50, 50, (37, 91))
    compare(lambda t: torch.unique(t, return_inverse=True, return_counts=True), x)
    compare(lambda t: torch.unique(t.float()), x)
    compare(lambda t: torch.unique_consecutive(t.flatten() // 30, return_inverse=True, return_counts=True), x)
    compare(torch.unique, torch.zeros(0))


def test_search(no_fallback):
    boundaries, values = torch.sort(torch.randn(4, 33))[0], torch.randn(4, 10)
    compare(torch.searchsorted, boundaries, values)
    compare(lambda b, v: torch.searchsorted(b, v, side="right", out_int32=True), boundaries, values)
    compare(lambda b, v: torch.bucketize(v, b[0], right=True), boundaries, values)
    compare(lambda b: torch.searchsorted(b[0], 0.3), boundaries)
    compare(
        lambda b, v, s: torch.searchsorted(b, v, sorter=s),
        boundaries.flip(-1),
        values,
        torch.arange(32, -1, -1).expand(4, 33).contiguous(),
    )


def test_isin(no_fallback):
    x = torch.randint(-50, 50, (37, 91))
    compare(torch.isin, x, torch.arange(-7, 8, 3))
    compare(lambda t: torch.isin(t, 3, invert=True), x)
    compare(torch.isin, x, torch.zeros(0, dtype=torch.int64))


def test_histograms(no_fallback):
    x = torch.randint(0, 77, (5003,))
    compare(torch.bincount, x)
    compare(lambda t: torch.bincount(t, minlength=100), x)
    compare(torch.bincount, x, torch.rand(5003), rtol=1e-5, atol=1e-5)
    compare(lambda t: torch.histc(t, 17, -2, 2), torch.randn(5003))
    compare(lambda t: torch.histc(t, 17), torch.randn(5003))
    # Whole numbers are an error on the CPU and counted on CUDA.
    assert torch.histc(x.int().to("ocl"), 77, 0, 76).long().tolist() == torch.bincount(x, minlength=77).tolist()
    assert torch.histc(torch.tensor([0, 1, 2, 3, 3, 9, -1], device="ocl"), 4, 0, 3).tolist() == [1, 1, 1, 2]
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device="ocl"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool])
def test_distinct_slices(dtype, no_fallback):
    x = torch.randint(0, 2 if dtype == torch.bool else 3, (23, 2, 37)).to(dtype)
    for dim in (0, 1, -1):
        compare(
            lambda t, dim=dim: torch.unique(
                t[:, :1, :2] if dim == 0 else t[:2], dim=dim, return_inverse=True, return_counts=True
            ),
            x,
        )
        compare(
            lambda t, dim=dim: torch.unique_consecutive(
                t[:, 0], dim=max(dim, 0) % 2, return_inverse=True, return_counts=True
            ),
            x,
        )
    assert torch.unique(torch.empty(0, 3, device="ocl"), dim=0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="There are 0 sized dimensions"):
        torch.unique(torch.empty(0, 3, device="ocl"), dim=1)
