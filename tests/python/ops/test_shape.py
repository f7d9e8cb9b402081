"""cat, triangles, ranges, windows: agreement with the CPU."""

import pytest
import torch
import torch.nn.functional as F

from conftest import without_fallback
from layer_checks import check


def same(function, *tensors, device="ocl"):
    expected = function(*tensors)
    with without_fallback():
        actual = function(*[t.to(device) for t in tensors])
    assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat_of_many(dim, device):
    shape = [3, 5, 7]
    tensors = []
    for size in (1, 4, 0, 2, 9, 1, 1, 3, 6, 2):
        shape[dim] = size
        tensors.append(torch.randn(shape))
    check(lambda *t: torch.cat(t, dim), *tensors)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.int64, torch.int16, torch.bool, torch.complex64], ids=str
)
def test_cat_dtypes(dtype, device):
    x = torch.randn(5, 11).to(dtype)
    same(lambda x: torch.cat([x, x[:2], x], 0), x)
    same(lambda x: torch.cat([x.t(), x.t()[:, ::2]], 1), x)
    same(lambda x: torch.stack([x, x], 1), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("count", [2, 3, 9])
def test_pieces_of_few_elements(count, dtype, device, no_fallback):
    for shape in [(3, 5), (7, 100), (4, 33, 1), (1000,)]:
        tensors = [torch.randint(0, 100, shape).to(dtype) for _ in range(count)]
        for dim in range(len(shape) + 1):
            assert torch.equal(torch.stack([t.to(device) for t in tensors], dim).cpu(), torch.stack(tensors, dim))
    tensors = [torch.randint(0, 100, (300, width)).to(dtype) for width in (1, 2, 3, 5, 1, 17)[:count]]
    assert torch.equal(torch.cat([t.to(device) for t in tensors], 1).cpu(), torch.cat(tensors, 1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128], ids=str)
def test_flips(dtype, device, no_fallback):
    for shape in [(3, 5), (7, 100), (2, 3, 37), (1, 16), (4, 17, 1)]:
        x = torch.randint(0, 100, shape).to(dtype)
        y = x.to(device)
        for dims in [(0,), (1,), (0, 1), (-1,)]:
            for on_cpu, on_device in ((x, y), (x.transpose(0, -1), y.transpose(0, -1)), (x[..., ::2], y[..., ::2])):
                assert torch.equal(on_device.flip(dims).cpu(), on_cpu.flip(dims))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.complex128])
def test_cat_of_views(dtype, device, no_fallback):
    """Slices, repeated rows, transposed and dense tensors side by side."""
    x = torch.arange(6 * 10 * 40).view(6, 10, 40).to(dtype)
    y = x.to(device)
    for function in (
        lambda t: torch.cat((t[..., 20:], t[..., :20]), -1),  # halves exchanged, as rotary embeddings do
        lambda t: torch.cat(t.chunk(4, 2)[::-1], 2),
        lambda t: torch.cat((t[:, 2:5], t, t[:, :1]), 1),
        lambda t: torch.cat((t[1:2].expand(6, 10, 40), t[:, :1].expand(6, 10, 40)[..., 3:]), 2),
        lambda t: torch.cat((t[:1, :1].expand(6, 10, 40), t[..., :1].expand(6, 10, 7), t.flip(0)[..., ::2]), 2),
        lambda t: torch.cat((t.transpose(0, 1), t.transpose(0, 1)[:, 1:3]), 1),
        lambda t: torch.cat((t[::2], t[1:2], t[:, ::2].repeat(1, 2, 1)), 0),
        lambda t: torch.stack((t[..., 0], t[..., 39], t[:, :, 5]), -1),
        lambda t: torch.stack((t[0, :, ::2], t[1, :, 1::2]), -1),
    ):
        result = function(y)
        assert result.device.type == "ocl"
        assert torch.equal(result.cpu(), function(x))


def test_cat_promotes_skips_empty_and_keeps_channels_last(device):
    x, y = torch.randn(4, 3), torch.arange(12).view(4, 3)
    same(lambda x, y: torch.cat([x, y], 1), x, y)
    same(lambda x: torch.cat([torch.empty(0, device=x.device), x]), x)
    image = torch.randn(2, 3, 5, 4).to(memory_format=torch.channels_last)
    joined = torch.cat([image.to(device), image.to(device)], 1)
    assert joined.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(joined.cpu(), torch.cat([image, image], 1))
    out = torch.empty(8, 3, device=device)
    assert torch.equal(torch.cat([x.to(device), x.to(device)], out=out).cpu(), torch.cat([x, x]))


@pytest.mark.parametrize("k", [-20, -3, 0, 2, 20])
def test_triangles(k, device):
    x = torch.randn(3, 11, 7)
    check(lambda x: x.tril(k), x)
    check(lambda x: x.triu(k), x)
    same(lambda x: x.transpose(1, 2).triu(k), x)
    same(lambda x: x.clone().tril_(k), x)
    for make in (torch.tril_indices, torch.triu_indices):
        assert torch.equal(make(9, 6, k, device=device).cpu(), make(9, 6, k))


def test_ranges(device):
    for arguments in ((10,), (2, 11, 3), (5, -5, -2), (0.0, 1.0, 0.1), (1.5, 4.0), (2**53 + 1, 2**53 + 9, 2)):
        assert torch.equal(torch.arange(*arguments, device=device).cpu(), torch.arange(*arguments))
    for dtype in (torch.float16, torch.int32, torch.uint8, torch.float64):
        assert torch.equal(
            torch.arange(3, 90, 7, device=device, dtype=dtype).cpu(), torch.arange(3, 90, 7, dtype=dtype)
        )
    for steps in (0, 1, 2, 13, 1001):
        torch.testing.assert_close(torch.linspace(-1, 3, steps, device=device).cpu(), torch.linspace(-1, 3, steps))
        torch.testing.assert_close(torch.logspace(-1, 3, steps, device=device).cpu(), torch.logspace(-1, 3, steps))
    assert torch.equal(torch.eye(5, 8, device=device).cpu(), torch.eye(5, 8))
    assert torch.equal(torch.eye(3, dtype=torch.bool, device=device).cpu(), torch.eye(3, dtype=torch.bool))


def test_windows(device):
    x = torch.randn(2, 3, 11, 9)
    for options in (
        {"kernel_size": 3},
        {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 2), "stride": (3, 2)},
    ):
        check(lambda x: F.unfold(x, **options), x)
        columns = F.unfold(x, **options)
        check(lambda c: F.fold(c, (11, 9), **options), columns)
    check(lambda x: x.unfold(2, 4, 3), x)
    check(lambda x: x.unfold(3, 2, 1).unfold(2, 3, 3), x)


def test_repeats_and_shuffles(device):
    x, counts = torch.randn(4, 6), torch.tensor([2, 0, 3, 1])
    check(lambda x, n: x.repeat_interleave(n, 0), x, counts)
    same(torch.repeat_interleave, counts)
    check(lambda x: F.pixel_shuffle(x, 2), torch.randn(2, 8, 3, 5))
    check(lambda x: F.channel_shuffle(x, 3), torch.randn(2, 6, 3, 5))
    with pytest.raises(RuntimeError, match="negative"):
        torch.repeat_interleave(torch.tensor([1, -1], device=device))


REARRANGED = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 3),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 3),
    "reflect": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "replicate": lambda x: F.pad(x, (-1, 2, 0, -1), mode="replicate"),
}


@pytest.mark.parametrize("name", list(REARRANGED))
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
def test_rearranged_images_keep_their_layout(device, no_fallback, name, memory_format):
    x = torch.randn(2, 18, 6, 8).contiguous(memory_format=memory_format)
    mine, theirs = x.to(device).requires_grad_(), x.clone().requires_grad_()
    actual, expected = REARRANGED[name](mine), REARRANGED[name](theirs)
    assert torch.equal(actual.cpu(), expected) and actual.stride() == expected.stride()
    weight = torch.randn_like(expected)
    actual.backward(weight.to(device))
    expected.backward(weight)
    torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
    assert mine.grad.stride() == theirs.grad.stride()
