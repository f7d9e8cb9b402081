"""Pooling against the CPU: values, indices bit for bit, gradients, layouts."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
MAX_2D = [
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=2),
    dict(kernel_size=3, stride=1, padding=1),
    dict(kernel_size=(3, 2), stride=(2, 3), padding=(1, 0)),
    dict(kernel_size=3, stride=2, dilation=2),
    dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
]
AVERAGE_2D = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=3, stride=2, padding=1, count_include_pad=False, ceil_mode=True),
    dict(kernel_size=(3, 5), stride=1, divisor_override=7),
    dict(kernel_size=8),
]


def image(*shape, channels_last=False):
    x = (torch.randn(shape) * 4).round() / 4  # equal values, so that the choice of index shows
    return x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d) if channels_last else x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("arguments", MAX_2D)
def test_max_pool2d(device, dtype, channels_last, arguments):
    check(
        lambda x: F.max_pool2d(x, **arguments, return_indices=True),
        image(2, 5, 21, 37, channels_last=channels_last),
        device=device,
        dtype=dtype,
    )
    check(
        lambda x: F.max_pool2d(x, **arguments),
        image(2, 19, 14, 13, channels_last=channels_last),
        device=device,
        dtype=dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("arguments", AVERAGE_2D)
def test_avg_pool2d(device, dtype, channels_last, arguments):
    check(
        lambda x: F.avg_pool2d(x, **arguments),
        image(2, 19, 14, 37, channels_last=channels_last),
        device=device,
        dtype=dtype,
    )


@pytest.mark.parametrize("size", [1, (3, 4), (11, 13), (13, 5)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_adaptive_2d(device, size, channels_last):
    x = image(2, 19, 11, 13, channels_last=channels_last)
    check(lambda x: F.adaptive_avg_pool2d(x, size), x, device=device)
    check(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), x, device=device)


@pytest.mark.parametrize("channels_last", [False, True])
def test_3d(device, channels_last):
    x = image(2, 5, 7, 9, 11, channels_last=channels_last)
    check(lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), x, device=device)
    check(lambda x: F.avg_pool3d(x, 2, 2), x, device=device)
    check(lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False), x, device=device)
    check(
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), x, device=device, strides=False
    )  # memory order of the result is not the CPU's yet
    check(lambda x: F.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True), x, device=device)


def test_1d_and_unbatched(device):
    check(lambda x: F.max_pool1d(x, 3, 2, 1), image(3, 5, 41), device=device)
    check(lambda x: F.avg_pool1d(x, 3, 2, 1), image(3, 5, 41), device=device)
    check(lambda x: F.adaptive_avg_pool1d(x, 7), image(3, 5, 41), device=device)
    check(lambda x: F.max_pool2d(x, 2), image(5, 12, 14), device=device)
    check(lambda x: F.avg_pool2d(x, 2), image(5, 12, 14), device=device)
    check(lambda x: F.max_pool3d(x, 2), image(2, 5, 12, 14), device=device)


def test_views(device):
    check(lambda x: F.max_pool2d(x[:, 1:3, :, 2:], 3, 2, 1), image(2, 5, 13, 17), device=device, strides=False)
    check(lambda x: F.avg_pool2d(x.transpose(2, 3), 3, 2, 1), image(2, 5, 13, 17), device=device, strides=False)


def test_nan_wins(device):
    x = image(1, 2, 9, 20)
    x[0, 0, 4, 7] = float("nan")
    x[0, 1, :, 3] = float("-inf")
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x, device=device, gradients=False)


def test_integers(device):
    x = torch.randint(-9, 9, (2, 3, 8, 8))
    y, index = F.max_pool2d(x.to(device), 2, return_indices=True)
    expected = F.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(y.cpu(), expected[0]) and torch.equal(index.cpu(), expected[1])


def test_errors(device):
    x = torch.randn(1, 2, 4, 4, device=device)
    with pytest.raises(RuntimeError, match="pad should be at most half"):
        F.max_pool2d(x, 2, padding=2)
    with pytest.raises(RuntimeError):
        F.avg_pool2d(x, 9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fractional_max_pool(device, dtype, no_fallback):
    samples = torch.rand(2, 3, 3, dtype=dtype)

    def pool(x, spatial):
        function = F.fractional_max_pool2d if spatial == 2 else F.fractional_max_pool3d
        drawn = samples[..., :spatial].to(x)
        return function(x, 2, output_size=(4, 5, 1)[:spatial], _random_samples=drawn, return_indices=True)

    check(lambda x: pool(x, 2), torch.randn(2, 3, 9, 14), device=device, dtype=dtype)
    check(lambda x: pool(x, 3), torch.randn(2, 3, 9, 14, 3), device=device, dtype=dtype)
