"""Convolutions against the CPU: values, the three gradients, memory formats, errors. Algorithms:
tests/cpp/test_conv.cpp."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# input, output channels, kernel, arguments
CASES = {
    "pointwise": ((2, 19, 7, 9), 23, (1, 1), {}),
    "three": ((2, 7, 13, 17), 11, (3, 3), dict(padding=1)),
    "winograd": ((2, 32, 14, 14), 64, (3, 3), dict(padding=1)),
    "stride": ((2, 7, 14, 17), 11, (3, 3), dict(padding=1, stride=2)),
    "even_stride": ((2, 16, 14, 14), 32, (3, 3), dict(padding=1, stride=2)),
    "stem": ((2, 3, 37, 37), 16, (7, 7), dict(padding=3, stride=2)),
    "dilation": ((2, 5, 13, 17), 7, (3, 2), dict(padding=(2, 1), dilation=(2, 3), stride=(1, 2))),
    "groups": ((2, 12, 11, 13), 20, (3, 3), dict(padding=1, groups=4)),
    "depthwise": ((2, 7, 17, 19), 7, (3, 3), dict(padding=1, groups=7)),
    "depthwise_stride": ((2, 7, 17, 19), 7, (5, 5), dict(padding=2, stride=2, groups=7)),
    "whole_input": ((3, 11, 6, 5), 13, (6, 5), dict(stride=2)),
    "whole_input_groups": ((3, 12, 4, 4), 8, (4, 4), dict(groups=2)),
    "multiplier": ((2, 3, 11, 13), 6, (3, 3), dict(padding=1, groups=3)),
    "depthwise_small": ((2, 70, 7, 7), 70, (3, 3), dict(padding=1, groups=70)),
    "depthwise_small_stride": ((2, 66, 13, 14), 66, (5, 5), dict(padding=2, stride=2, groups=66)),
    # taps that meet nothing but padding
    "one_pixel": ((3, 20, 1, 1), 12, (3, 3), dict(padding=1)),
    "few_rows": ((2, 6, 2, 5), 7, (3, 7), dict(padding=(1, 3))),
    "dilation_exceeds_input": ((2, 6, 4, 4), 7, (3, 3), dict(padding=6, dilation=6)),
    "few_pixels_stride": ((2, 6, 5, 3), 8, (5, 5), dict(padding=2, stride=2, groups=2)),
    "dead_on_one_side": ((2, 6, 4, 4), 7, (3, 3), dict(padding=3, dilation=3, stride=2)),
    "dead_on_one_side_live": ((2, 6, 3, 3), 7, (4, 4), dict(padding=1, stride=3)),
    "few_rows_groups": ((3, 8, 1, 6), 16, (3, 3), dict(padding=1, groups=8)),
}
VOLUMES = {
    "winograd": ((2, 16, 5, 10, 9), 32, (3, 3, 3), dict(padding=1)),
    "slices": ((2, 16, 4, 8, 8), 24, (1, 3, 3), dict(padding=(0, 1, 1))),
    "depth_only": ((2, 12, 6, 5, 5), 9, (3, 1, 1), dict(padding=(1, 0, 0))),
    "one_slice": ((2, 12, 1, 6, 6), 9, (3, 3, 3), dict(padding=1)),
    "stride": ((1, 6, 7, 9, 8), 8, (3, 3, 3), dict(padding=1, stride=2)),
    "dilation": ((1, 6, 7, 9, 8), 8, (3, 3, 3), dict(padding=(2, 1, 1), dilation=(2, 1, 1))),
}
TRANSPOSED = {
    "plain": ((2, 5, 7, 9), 7, (3, 3), {}),
    "from_one_pixel": ((5, 20, 1, 1), 12, (4, 4), {}),
    "double": ((2, 6, 7, 9), 4, (4, 4), dict(stride=2, padding=1)),
    "output_padding": ((2, 5, 7, 9), 3, (3, 3), dict(stride=2, padding=1, output_padding=1)),
    "groups": ((2, 6, 7, 9), 8, (3, 2), dict(stride=(1, 2), groups=2)),
    "dilation": ((2, 5, 7, 9), 3, (3, 3), dict(dilation=2, stride=3, padding=1, output_padding=(1, 2))),
}


def operands(case, transposed=False):
    size, out, kernel, arguments = case
    groups = arguments.get("groups", 1)
    weight = torch.randn(*((size[1], out // groups) if transposed else (out, size[1] // groups)), *kernel)
    return torch.randn(size), weight / weight[0].numel() ** 0.5, torch.randn(out)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_conv2d(device, name, dtype):
    check(
        lambda x, w, b: F.conv2d(x, w, b, **CASES[name][3]),
        *operands(CASES[name]),
        device=device,
        dtype=dtype,
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last_3d])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", VOLUMES)
def test_conv3d(device, name, dtype, memory_format):
    x, w, b = operands(VOLUMES[name])
    order = lambda tensor: tensor.contiguous(memory_format=memory_format)
    check(
        lambda x, w, b: F.conv3d(order(x), order(w), b, **VOLUMES[name][3]),
        x,
        w,
        b,
        device=device,
        dtype=dtype,
        strides=False,
    )  # the order of the result depends on the algorithm, on the CPU too


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", ["input", "weight", "both"])
def test_channels_last(device, name, which):
    x, w, b = operands(CASES[name])
    x = x.to(memory_format=torch.channels_last) if which != "weight" else x
    w = w.to(memory_format=torch.channels_last) if which != "input" else w
    check(lambda x, w, b: F.conv2d(x, w, b, **CASES[name][3]), x, w, b, device=device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose2d(device, name, dtype):
    case = TRANSPOSED[name]
    check(
        lambda x, w, b: F.conv_transpose2d(x, w, b, **case[3]),
        *operands(case, True),
        device=device,
        dtype=dtype,
        steps=1,  # the bias is added to the stored sums
    )


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose2d_channels_last(device, name):
    case = TRANSPOSED[name]
    x, w, b = operands(case, True)
    order = lambda tensor: tensor.to(memory_format=torch.channels_last)
    check(lambda x, w, b: F.conv_transpose2d(x, w, b, **case[3]), order(x), order(w), b, device=device)


def test_other_dimensions(device):
    check(
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3),
        torch.randn(3, 5, 101),
        torch.randn(7, 5, 9),
        torch.randn(7),
        device=device,
    )
    check(
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1),
        torch.randn(3, 5, 31),
        torch.randn(5, 4, 4),
        device=device,
    )
    check(F.conv1d, torch.randn(5, 31), torch.randn(4, 5, 3), device=device)
    volume, weight = torch.randn(2, 4, 5, 7, 9), torch.randn(6, 2, 3, 3, 3)
    check(lambda x, w: F.conv3d(x, w, groups=2, padding=1, stride=(1, 2, 2)), volume, weight, device=device)
    check(
        lambda x, w: F.conv3d(x, w, groups=2),
        volume.to(memory_format=torch.channels_last_3d),
        weight,
        device=device,
    )
    check(
        lambda x, w: F.conv_transpose3d(x, w, stride=2),
        torch.randn(2, 4, 3, 4, 5),
        torch.randn(4, 3, 2, 3, 2),
        device=device,
    )


@pytest.mark.parametrize(("kernel", "stride"), [(5, 2), (5, 1), (7, 2), (3, 1), (3, 2)])
def test_very_wide_images(device, kernel, stride):
    x, w = torch.randn(1, 8, 7, 20000), torch.randn(16, 8, kernel, kernel) / (8 * kernel**2) ** 0.5
    check(lambda x, w: F.conv2d(x, w, padding=kernel // 2, stride=stride), x, w, device=device)


def test_integers(device):
    x, w = torch.randint(-9, 9, (2, 3, 7, 8)), torch.randint(-9, 9, (4, 3, 3, 3))
    assert torch.equal(F.conv2d(x.to(device), w.to(device), padding=1).cpu(), F.conv2d(x, w, padding=1))


def test_views(device):
    """Operands that are not dense: a slice, an expanded bias, a transposed weight."""
    x, w, b = torch.randn(3, 8, 12, 20), torch.randn(5, 9, 3, 3), torch.randn(1)
    check(
        lambda x, w, b: F.conv2d(x[1:, 2:7, :, 3:], w.transpose(0, 1)[:6, :, ::2], b.expand(6), padding=1),
        x,
        w,
        b,
        device=device,
    )


def test_empty_batch(device):
    x = torch.randn(0, 3, 8, 8, device=device, requires_grad=True)
    w = torch.randn(4, 3, 3, 3, device=device, requires_grad=True)
    y = F.conv2d(x, w)
    assert y.shape == (0, 4, 6, 6)
    y.sum().backward()
    assert x.grad.shape == x.shape and not w.grad.cpu().any()


def test_double_backward(device):
    def function(x, w):
        y = F.conv2d(x, w, padding=1)
        (gradient,) = torch.autograd.grad((y**2).sum(), w, create_graph=True)
        return gradient

    check(function, torch.randn(2, 3, 6, 7), torch.randn(4, 3, 3, 3), device=device)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda d: (torch.randn(1, 3, 4, 4, device=d), torch.randn(2, 4, 3, 3, device=d)),
            "expected input.* to have 4 channels",
        ),
        (
            lambda d: (torch.randn(1, 3, 2, 2, device=d), torch.randn(2, 3, 3, 3, device=d)),
            "Kernel size can't be greater",
        ),
        (
            lambda d: (torch.randn(1, 3, 4, 4, device=d), torch.randn(2, 3, 3, 3, device=d, dtype=torch.float16)),
            "should be the same",
        ),
        (lambda d: (torch.randn(1, 3, 4, 4, device=d), torch.randn(2, 3, 3, 3)), "same"),
    ],
)
def test_errors(device, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*arguments(device))
