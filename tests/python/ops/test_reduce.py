"""Reductions against the CPU: every operator over several sets of dimensions, layouts and types, without the
fallback."""

import pytest
import torch

from conformance.tolerances import assert_close

DIMS = [0, 1, 2, (0, 2), (1, 2), (0, 1, 2)]
LAYOUTS = {
    "contiguous": lambda: torch.randn(37, 53, 11),
    "transposed": lambda: torch.randn(11, 53, 37).transpose(0, 2),
    "sliced": lambda: torch.randn(40, 60, 30)[3:40:2, 5:58, 1:30:3],
    "expanded": lambda: torch.randn(37, 1, 11).expand(37, 53, 11),
    "large": lambda: torch.randn(3, 70, 1201),
}

OPS = {
    "sum": lambda x, d: x.sum(d),
    "sum_keepdim": lambda x, d: x.sum(d, keepdim=True),
    "mean": lambda x, d: x.mean(d),
    "nansum": lambda x, d: torch.where(x > 1, torch.nan, x).nansum(d),
    "amax": lambda x, d: x.amax(d),
    "amin": lambda x, d: torch.where(x > 2.5, torch.nan, x).amin(d),
    "any": lambda x, d: (x > 2).any(d),
    "all": lambda x, d: (x > -2).all(d),
    "count_nonzero": lambda x, d: (x > 0).count_nonzero(d),
    "var": lambda x, d: x.var(d),
    "std": lambda x, d: x.std(d, correction=0, keepdim=True),
    "var_mean": torch.var_mean,
    "vector_norm": lambda x, d: torch.linalg.vector_norm(x, 2, d),
    "norm_1": lambda x, d: torch.linalg.vector_norm(x, 1, d),
    "norm_inf": lambda x, d: torch.linalg.vector_norm(x, float("inf"), d),
    "norm_3": lambda x, d: torch.linalg.vector_norm(x, 3, d),
    "norm_0": lambda x, d: torch.linalg.vector_norm(x, 0, d),
}

ONE_DIM = {
    "argmax": lambda x, d: x.argmax(d),
    "argmin": lambda x, d: x.argmin(d),
    "max": lambda x, d: x.max(d),
    "min": lambda x, d: x.min(d, keepdim=True),
    "prod": lambda x, d: (x * 0.5).prod(d),
    "aminmax": lambda x, d: torch.aminmax(x, dim=d),
}

WHOLE = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": lambda x: (1 + x * 1e-3).prod(),
    "max": torch.max,
    "min": torch.min,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "any": lambda x: (x > 9).any(),
    "all": lambda x: (x > -9).all(),
    "var": torch.var,
    "std_mean": torch.std_mean,
    "norm": torch.norm,
    "count_nonzero": torch.count_nonzero,
}


def compare(function, *inputs, rtol=1e-4, atol=1e-5):
    expected = function(*inputs)
    actual = function(*[x.to("ocl") for x in inputs])
    if isinstance(expected, torch.Tensor):
        expected, actual = [expected], [actual]
    for e, a in zip(expected, actual):
        assert a.device.type == "ocl"
        tolerance = {"rtol": rtol, "atol": atol} if e.is_floating_point() or e.is_complex() else {}
        torch.testing.assert_close(a.cpu(), e, equal_nan=True, **tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPS)
def test_dims(name, layout, no_fallback):
    x = LAYOUTS[layout]()
    for dims in DIMS:
        compare(lambda t: OPS[name](t, dims), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ONE_DIM)
def test_one_dim(name, layout, no_fallback):
    x = LAYOUTS[layout]()
    for dim in range(3):
        compare(lambda t: ONE_DIM[name](t, dim), x)


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name, no_fallback):
    compare(WHOLE[name], torch.randn(101, 997))
    compare(WHOLE[name], torch.randn(31, 17).t())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_integers(dtype, no_fallback):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (41, 67)).to(dtype)
    for dim in range(2):
        compare(lambda t: t.sum(dim), x)
        compare(lambda t: t.amax(dim), x)
        compare(lambda t: t.any(dim), x)
        compare(lambda t: t.sum(dim, dtype=torch.float32), x)
    compare(lambda t: t.argmax() if dtype != torch.bool else t.sum(), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats(dtype, no_fallback):
    x = torch.randn(41, 67).to(dtype)
    for dim in range(2):
        for function in (torch.sum, torch.std, torch.mean):
            result = function(x.to("ocl"), dim)
            assert result.dtype == dtype
            assert_close(result, function(x.double(), dim), terms=x.shape[dim])
        assert_close(x.to("ocl").mean(dim, dtype=torch.float32), x.double().mean(dim), terms=x.shape[dim])
        compare(lambda t: t.max(dim), x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex(dtype, no_fallback):
    x = torch.randn(41, 67, dtype=dtype)
    for dim in range(2):
        compare(lambda t: t.sum(dim), x)
        compare(lambda t: (t * 0.3).prod(dim), x)
        compare(lambda t: torch.linalg.vector_norm(t, 2, dim), x)
        compare(lambda t: t.any(dim), x)


def test_empty_and_scalars(no_fallback):
    empty = torch.zeros(0, 3)
    for function in (
        lambda t: t.sum(0),
        lambda t: t.prod(0),
        lambda t: t.mean(0),
        lambda t: t.all(0),
        lambda t: t.sum(),
        lambda t: t.sum(1),
    ):
        compare(function, empty)
    for function in (
        torch.sum,
        torch.mean,
        torch.max,
        torch.argmax,
        lambda t: t.max(0),
        lambda t: t.sum(0, keepdim=True),
    ):
        compare(function, torch.tensor(3.0))


@pytest.mark.parametrize("function", [torch.max, torch.argmax, torch.amax, lambda t: t.max(0)])
def test_errors_are_those_of_the_cpu(function):
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(torch.zeros(0, 3))
    with pytest.raises(type(expected.value)) as actual:
        function(torch.zeros(0, 3, device="ocl"))
    assert str(actual.value).split("\n")[0] == str(expected.value).split("\n")[0]


def test_given_output_is_resized_and_keeps_its_strides(no_fallback):
    x = torch.randn(5, 7, 9)
    compare(lambda t: torch.sum(t, 1, out=torch.empty(0, device=t.device)), x)
    compare(lambda t: torch.amax(t, 1, out=torch.empty(9, 5, device=t.device).t()), x)


def test_nan_is_the_maximum(no_fallback):
    x = torch.randn(30, 500)
    x[3, 7] = x[3, 99] = x[20, 499] = torch.nan
    for dim in range(2):
        compare(lambda t: t.max(dim), x)
        compare(lambda t: t.argmin(dim), x)
    compare(lambda t: (t.max(), t.argmax(), t.amin()), x)


@pytest.mark.parametrize("length", [1, 15, 64, 100, 300, 1500])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_nan_anywhere_is_the_result(length, dim, dtype, no_fallback):
    """Line k has its only NaN at position k, so whichever vector, chain or remainder of the kernel meets it, and one
    line has none."""
    x = torch.randn(length + 1, length).to(dtype)
    x.fill_diagonal_(torch.nan)
    x = (x if dim else x.t().contiguous()).to("ocl")
    without = torch.arange(length + 1) == length
    for function in (
        torch.amax,
        torch.amin,
        lambda t, d: torch.linalg.vector_norm(t, torch.inf, d),
        lambda t, d: torch.linalg.vector_norm(t, -torch.inf, d),
    ):
        result = function(x, dim)
        assert result.is_ocl
        assert torch.equal(result.cpu().isnan(), ~without)
        assert torch.equal(result.cpu()[-1], function(x.cpu(), dim)[-1])


def test_ties_take_the_first_index(no_fallback):
    compare(lambda t: (t.argmax(), t.argmin(1), t.argmax(0)), torch.randint(0, 3, (300, 401)).float())


def test_sum_of_many_small_numbers_is_accurate(no_fallback):
    x = torch.rand(3_000_001)
    exact = x.double().sum().item()
    assert abs(x.to("ocl").sum().item() - exact) / exact < 3e-7


def test_reductions_that_end_in_their_own_launch(device, no_fallback):
    """The last task to arrive combines the parts: the count of arrivals starts anew each time, for every number of
    tasks and on every stream."""
    streams = [torch.ocl.current_stream(), torch.ocl.Stream(), torch.ocl.Stream()]
    xs = [torch.randint(-9, 9, (n,), dtype=torch.float32) for n in (1 << 20, 40_001, 300_007, 1 << 18)] + [
        torch.randint(-9, 9, (3, 1 << 18)).float()
    ]
    on_device = [x.to(device) for x in xs]
    torch.ocl.synchronize()
    results = []
    for round_ in range(15):
        for i, x in enumerate(on_device):
            with torch.ocl.stream(streams[(round_ + i) % 3]):
                results.append((i, x.sum(-1), x.amax(-1), x.argmin(-1), (x * 0 + 1).prod(-1)))
    torch.ocl.synchronize()
    for i, total, largest, where, product in results:
        x = xs[i]
        assert (
            torch.equal(total.cpu(), x.sum(-1))
            and torch.equal(largest.cpu(), x.amax(-1))
            and torch.equal(product.cpu(), torch.ones_like(total.cpu()))
        )
        assert torch.equal(where.cpu(), x.argmin(-1))


def test_results_are_deterministic(no_fallback):
    x = torch.randn(1_000_003, device="ocl")
    first = x.sum().item()
    assert all(x.sum().item() == first for _ in range(10))
