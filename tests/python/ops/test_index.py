"""Reading and writing through indices and masks: agreement with the CPU, no fallback, errors that do not kill the
process."""

import pytest
import torch

from conftest import without_fallback
from layer_checks import check

MOVED = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def values(shape, dtype):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randn(shape).mul(50).to(dtype) if not dtype.is_complex else torch.randn(shape, dtype=dtype)


def same(function, *tensors, device="ocl"):
    """function gives the very same elements on the device."""
    expected = function(*[t.clone() if isinstance(t, torch.Tensor) else t for t in tensors])
    with without_fallback():
        actual = function(*[t.to(device) if isinstance(t, torch.Tensor) else t for t in tensors])
    assert actual.dtype == expected.dtype
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_every_dtype_moves(dtype, device):
    x, rows = values((11, 23), dtype), torch.tensor([3, -1, 0, 3, 10])
    columns = torch.randint(-23, 23, (11, 7))
    same(lambda a, i: a[i], x, rows)
    same(lambda a, i: a.index_select(0, i), x, rows % 11)
    same(lambda a, i: a.gather(1, i), x, columns % 23)
    same(lambda a, i: a.take(i), x, columns)
    same(lambda a, i: a.index_copy(0, i, a[:2] + a[:2]), x, torch.tensor([5, 2]))
    same(lambda a: a.flip(0, 1), x)
    same(lambda a: a.roll((3, -2), (0, 1)), x)


CASES = [
    lambda x, i, j, m: x[i],
    lambda x, i, j, m: x[:, i % 5],
    lambda x, i, j, m: x[i, j % 5],
    lambda x, i, j, m: x[i, :, j],
    lambda x, i, j, m: x[i, None, j % 5, 2:],
    lambda x, i, j, m: x[..., j],
    lambda x, i, j, m: x[m],
    lambda x, i, j, m: x[m, 1:],
    lambda x, i, j, m: x.transpose(0, 2)[j],
    lambda x, i, j, m: x[i[:, None], j[None, :] % 5],
    lambda x, i, j, m: x[:, ::2][i.int()],
    lambda x, i, j, m: x.expand(3, 7, 5, 9)[:, i, j % 5],
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_advanced_indexing(case, device):
    i, j = torch.tensor([0, 6, -2, 3]), torch.tensor([-1, 2, 4, 2])
    check(CASES[case], torch.randn(7, 5, 9), i, j, torch.rand(7, 5) > 0.4)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_index_put(dtype, accumulate, device):
    x, i, j = torch.zeros(6, 5, 4, dtype=dtype), torch.tensor([4, -2, 0, 1]), torch.tensor([1, 1, 3, -1])
    v = torch.arange(16).view(4, 4).to(dtype)
    same(lambda x, i, j, v: x.index_put((i, j), v, accumulate), x, i, j, v)
    same(lambda x, i, v: x.index_put((i,), v[0], accumulate), x, i, v)
    same(lambda x, i, j, v: x.transpose(0, 1).index_put((j % 5, i), v, accumulate), x, i, j, v)


def test_duplicates_accumulate(device):
    x, i, v = torch.zeros(13, 37), torch.randint(-13, 13, (4001,)), torch.randn(4001, 37)
    check(lambda x, v: x.index_put((i.to(x.device),), v, accumulate=True), x, v)


def test_masks(device):
    x, m = torch.randn(31, 17), torch.rand(31, 17) > 0.6
    same(torch.nonzero, m)
    same(torch.nonzero, x * m)
    same(lambda m: torch.nonzero(m, as_tuple=True)[1], m)
    same(lambda m: torch.nonzero_static(m, size=5), m)
    same(lambda m: torch.nonzero_static(m, size=600, fill_value=-3), m)
    same(torch.masked_select, x, m)
    same(torch.masked_select, x, m[0])
    same(lambda x, m: x.masked_scatter(m, x.flatten().flip(0)), x, m)
    same(torch.argwhere, torch.zeros(0, 3))
    same(torch.nonzero, torch.tensor(2.0))


def test_inplace_forms(device):
    x, i = torch.randn(9, 8), torch.tensor([2, 7, -1])
    same(lambda x, i: x.index_fill_(1, i, 2.5), x, i)
    same(lambda x, i: x.t().index_fill_(0, i, x[0, 0]), x, i)
    same(lambda x, i: x.put_(i, i * 1.0), x, i)
    same(lambda x, i: x.t().put_(i, i * 1.0, accumulate=True), x, i)
    same(lambda x, i: x[:, 1:4].index_copy_(1, i % 3, x[:, 5:]), x, i)


def test_out_of_range_is_an_error_and_the_process_goes_on(device):
    x = torch.arange(5.0, device=device)
    bad = torch.tensor([1, 5], device=device)
    for wrong in (
        lambda: x[bad],
        lambda: x.gather(0, bad),
        lambda: x.index_select(0, bad),
        lambda: x.clone().put_(bad, x[:2]),
    ):
        with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
            wrong()
            torch.accelerator.synchronize()
    assert x[torch.tensor([4, -5], device=device)].tolist() == [4, 0]


@pytest.mark.parametrize("function", [
    lambda x, i: x.gather(0, i), lambda x, i: x.index_select(0, i), lambda x, i: x.index_copy(0, i, x[:2]), lambda x,
    i: x.index_add(0, i, x[:2]), lambda x, i: x.scatter(0, i, 1.0), lambda x, i: x.scatter_add(0, i, x[:2]), lambda x,
    i: torch.nn.functional.embedding(i, x[:, None]),
])  # fmt: skip
def test_negative_indices_are_out_of_range_where_the_cpu_says_so(device, function):
    x, i = torch.arange(5.0), torch.tensor([1, -1])
    with pytest.raises((RuntimeError, IndexError)):
        function(x, i)
    with pytest.raises(torch.AcceleratorError, match="index -1 is out of bounds for dimension with size 5"):
        function(x.to(device), i.to(device))
        torch.accelerator.synchronize()


def test_zero_sizes(device):
    x, none = torch.randn(4, 3), torch.empty(0, dtype=torch.long)
    same(lambda x, i: x[i], x, none)
    same(lambda x, i: x.index_select(1, i), x, none)
    same(lambda x: x[:0].flip(1), x)
    same(lambda x, i: x.index_put((i,), torch.empty(0, 3, device=x.device)), x, none)


def test_deterministic_mode_writes_the_last_value(device, deterministic):
    i, v = torch.randint(0, 7, (999,)), torch.randn(999)
    expected = torch.zeros(7)
    for k, value in zip(i.tolist(), v.tolist()):
        expected[k] = value
    actual = torch.zeros(7, device=device).index_put_((i.to(device),), v.to(device))
    assert torch.equal(actual.cpu(), expected)
