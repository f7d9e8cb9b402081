"""Sums, extremes, positions, variances, normalisations; along rows, along columns, over everything."""

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

from .comparison import check, same

SHAPES = [(1, 1), (3, 5), (33, 100), (7, 1000), (1000, 7), (300, 33), (2, 70000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_along_every_dimension(device, shape, dim):
    x = torch.randn(shape)
    check(lambda x: ((x * 2).sum(dim), x.amax(dim), x.amin(dim), (x > 1).sum(dim)), [x])
    if isinstance(dim, int):
        check(lambda x: (x.argmax(dim), x.argmin(dim), (x > 2).any(dim), (x > -3).all(dim)), [x])
    check(lambda x: torch.var_mean(x, dim, correction=0), [x])


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8], ids=str
)
def test_types(device, dtype):
    x = (torch.rand(20, 45) * 20).to(dtype)
    check(lambda x: (x.sum(1), x.amax(1), x.amin(0), x.argmax(1)), [x])
    check(lambda x: (x[:, :4] / 8).prod(1), [x])


def test_three_dimensions(device):
    x = torch.randn(5, 6, 7, 8)
    for dims in [(0, 2), (1, 3), (0, 3), (1, 2), (0, 2, 3), (3,), (0, 1, 2, 3)]:
        check(lambda x, dims=dims: (x.sum(dims), x.amax(dims), x.mean(dims)), [x])


def test_nan_wins_and_the_first_of_equals_is_named(device):
    x = torch.randint(0, 4, (20, 50)).float()
    check(lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), x.argmin(0)), [x])
    x[3, 7] = x[3, 30] = float("nan")
    check(lambda x: (x.argmax(1), x.argmin(1), x.amax(1), x.amin(0), x.sum(1)), [x])
    short = torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [2.0, 2.0, 2.0, 2.0]])  # without a loop
    check(lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), x.max(1), x.min(1)), [short])


def test_normalisations_are_one_kernel(device):
    x, w, b = torch.randn(33, 100), torch.randn(100), torch.randn(100)
    check(lambda x: (x * 2 + 1).softmax(-1), [x])
    check(lambda x: x.log_softmax(-1), [x], 1)
    check(lambda x, w, b: F.layer_norm(x + 1, (100,), w, b), [x, w, b], 1)
    check(lambda x, w: F.rms_norm(x, (100,), w), [x, w], 1)
    check(lambda x: x.softmax(0), [x])


def test_variance_far_from_zero(device):
    x = torch.randn(8, 3000) + 1000
    got = torch.compile(lambda x: x.var(1))(x.to(device))
    torch.testing.assert_close(got.cpu().double(), x.double().var(1), rtol=2e-4, atol=0)


def test_variance_in_blocks(device):
    for shape, dims in (((3, 5), 1), ((3, 17), 1), ((2, 275), 1), ((2, 1031), 1), ((9, 4, 7, 5), (0, 2, 3))):
        x = torch.randn(shape) + 100
        x.view(-1)[0] = 1e4  # the first value is no guess of the others'
        expected = torch.var_mean(x.double(), dims)
        actual = torch.compile(lambda x, dims=dims: torch.var_mean(x, dims), dynamic=False)(x.to(device))
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a.cpu().double(), e, rtol=1e-5, atol=1e-6)
    constant = torch.full((4, 300), 1234.5678).to(device)
    assert torch.compile(lambda x: x.var(1))(constant).cpu().tolist() == [0.0] * 4


def test_batch_and_group_norm(device):
    x, w, b = torch.randn(4, 6, 5, 7), torch.randn(6), torch.randn(6)
    mean, var = torch.zeros(6), torch.ones(6)
    f = torch.compile(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True))
    m, v = mean.to(device), var.to(device)
    same(f(x.to(device), m, v, w.to(device), b.to(device)), F.batch_norm(x, mean, var, w, b, training=True))
    same([m, v], [mean, var])
    check(lambda x, w, b: F.group_norm(x, 2, w, b), [x, w, b])
    check(lambda x, w, b: F.group_norm(x.to(memory_format=torch.channels_last), 3, w, b), [x, w, b])
    check(F.instance_norm, [x])


def test_large_sums_are_split(device):
    x = torch.rand(1 << 20)
    got = torch.compile(lambda x: (x.sum(), x.mean(), x.amax()))(x.to(device))
    torch.testing.assert_close(got[0].cpu().double(), x.double().sum(), rtol=1e-6, atol=0)
    assert got[2].cpu() == x.max()
    y = torch.rand(200000, 3)
    torch.testing.assert_close(torch.compile(lambda y: y.sum(0))(y.to(device)).cpu().double(), y.double().sum(0),
                               rtol=1e-5, atol=0)  # fmt: skip


def test_losses(device):
    x, t, y = torch.randn(20, 10), torch.randint(10, (20,)), torch.rand(20, 10)
    check(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [x, t])
    check(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.binary_cross_entropy_with_logits(x, y)), [x, y])
    check(lambda x, y: (F.cosine_similarity(x, y), x.norm(dim=1), F.kl_div(x.log_softmax(1), y.softmax(1))), [x, y])


def test_what_has_no_generated_kernel_calls_the_library(device):
    x = torch.randn(12, 40)
    check(lambda x: ((x * 2).cumsum(1) + 1, (x * 2).sort(1), x.topk(3), (x + 1).cumprod(1)), [x])
    check(lambda x: (torch.bucketize(x, torch.arange(5.0, device=x.device)), x.median(1), x.logcumsumexp(1)), [x])


def test_along_columns_in_strips(device):
    """Several strips, a part of one, a row that is no whole number of vectors; what follows the loop, and two loops."""
    x, w = torch.randn(53, 1213), torch.randn(1213)
    check(lambda x, w: ((x * w).sum(0) + w, (x - w).amax(0)), [x, w], 1)
    x = torch.randn(203, 1213)  # more rows are parts of two kernels
    check(lambda x: (x.argmax(0), x.var(0), (x > 3).any(0)), [x])
    check(lambda x: x.softmax(0), [x])
    check(lambda x: x.sum((0, 2, 3)), [torch.randn(3, 70, 5, 9).to(memory_format=torch.channels_last)])


@pytest.mark.parametrize("inner", [(4, 8), (6, 9), (16, 16), (7, 7)], ids=str)
def test_along_rows_of_parts(device, inner):
    """As in batch normalisation: vectors run along parts of a row, with and without a rest at their ends."""
    x = torch.randn(5, 3, *inner) + 2
    check(lambda x: (x.sum((0, 2, 3)), x.amin((0, 2, 3)), (x > 4).sum((0, 2, 3))), [x])
    check(lambda x: torch.var_mean(x, (0, 2, 3)), [x])
    check(lambda x: (x.transpose(0, 1).flatten(1).argmax(1), x.transpose(0, 1).flatten(1).logsumexp(1)), [x])


def test_neighbouring_vectors_of_long_rows_have_states_of_their_own(device):
    """Whole blocks of vectors, a rest of vectors, and a rest of lanes; one and two reductions, and more of them."""
    for columns in (512, 513, 560, 575, 1100):
        x = torch.randint(-8, 9, (5, columns)).float()
        check(lambda x: x.sum(1), [x], 1, dynamic=False)
        check(lambda x: ((x * 2).sum(1), (x > 1).any(1)), [x], 1, dynamic=False)
        check(lambda x: (x.sum(1), x.amax(1), x.amin(1)), [x], 1, dynamic=False)
        x[2, columns - 3] = x[3, 40] = float("nan")
        check(lambda x: (x.amax(1), x.amin(1)), [x], 1, dynamic=False)
    check(lambda x: x.sum((0, 2)), [torch.randint(-8, 9, (3, 2, 700)).float()], 1, dynamic=False)
    _, code = run_and_get_code(torch.compile(lambda x: x.sum(1), dynamic=False), torch.randn(9, 600, device=device))
    assert ("_parts[part]" in code[0]) == (torch.ocl.get_device_properties().style == "cpu")


def test_whole_vectors_need_no_masks(device):
    for columns, masks in ((48, False), (50, True)):
        _, code = run_and_get_code(torch.compile(lambda x: x.sum(1)), torch.randn(9, columns, device=device))
        assert ("LANE_IDS < n" in code[0]) == (masks and torch.ocl.get_device_properties().style == "cpu")


@pytest.mark.parametrize("columns", [18, 98, 120])
def test_parts_of_a_split_reduction_stay_reductions(columns):
    """Of fewer elements than Inductor writes as additions, it could not join them."""
    check(lambda x: (x * 2).reshape(columns, -1).sum(0, keepdim=True), (torch.randn(2, columns // 2, 768),))
