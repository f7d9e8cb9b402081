"""Convolutions."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def automatic_pads(sizes: Any, window: list[int], strides: list[int], auto_pad: str) -> list[Any]:
    """Pads [begins, ends] of SAME_UPPER and SAME_LOWER for windows of the dilated size `window`."""
    begins, ends = [], []
    for size, width, stride in zip(sizes, window, strides):
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + width - size, 0)
        small = total // 2
        begins.append(small if auto_pad == "SAME_UPPER" else total - small)
        ends.append(total - small if auto_pad == "SAME_UPPER" else small)
    return begins + ends


def resolve_pads(
    sizes: Any, kernel: list[int], strides: list[int], dilations: list[int], pads: Any, auto_pad: str
) -> list[Any]:
    """Pads [begins, ends] that a convolution or pooling uses."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        window = [(width - 1) * dilation + 1 for width, dilation in zip(kernel, dilations)]
        return automatic_pads(sizes, window, strides, auto_pad)
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise ValueError(f"auto_pad is '{auto_pad}'")
    return [0] * (2 * len(kernel)) if pads is None or auto_pad == "VALID" else list(pads)


def pad_list(begins: list[Any], ends: list[Any]) -> list[Any]:
    """What F.pad takes: begin and end of each axis, the last axis first."""
    return [pad for begin, end in zip(reversed(begins), reversed(ends)) for pad in (begin, end)]


def padded(x: Tensor, pads: list[Any], value: float = 0.0) -> tuple[Tensor, list[Any]]:
    """x with the part of the pads that differs between begin and end, and the equal pads that remain."""
    axes = len(pads) // 2
    begins, ends = pads[:axes], pads[axes:]
    if begins == ends and all(pad >= 0 for pad in begins):
        return x, begins
    return F.pad(x, pad_list(begins, ends), value=value), [0] * axes


def _axes(x: Tensor, w: Tensor, kernel_shape: Any) -> int:
    axes = x.dim() - 2
    if axes < 1 or w.dim() != x.dim():
        raise ValueError(f"the input has the shape {list(x.shape)}, the weight {list(w.shape)}")
    if kernel_shape is not None and list(kernel_shape) != list(w.shape[2:]):
        raise ValueError(f"kernel_shape is {kernel_shape}, the weight has the shape {list(w.shape)}")
    return axes


@row("Conv")
def convolution(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """A convolution over 1 to 3 axes."""
    axes = _axes(x, w, kernel_shape)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    x, equal = padded(x, resolve_pads(x.shape[2:], list(w.shape[2:]), strides, dilations, pads, auto_pad))
    if axes not in _CONVOLUTIONS:
        raise NotImplementedError(f"convolutions over {axes} axes do not exist in PyTorch")
    return _CONVOLUTIONS[axes](x, w, b, strides, equal, dilations, group)


@row("ConvTranspose")
def transposed_convolution(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """The gradient of a convolution as an operator; output_shape overrides pads."""
    axes = _axes(x, w, kernel_shape)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    extra = output_padding or [0] * axes
    window = [(width - 1) * dilation + 1 for width, dilation in zip(w.shape[2:], dilations)]
    full = [(size - 1) * s + k + e for size, s, k, e in zip(x.shape[2:], strides, window, extra)]
    if output_shape is not None:
        wanted = list(output_shape)[-axes:]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], strides)]
    else:
        wanted = None
    if wanted is not None:
        total = [have - want for have, want in zip(full, wanted)]
        small = [part // 2 for part in total]
        large = [part - low for part, low in zip(total, small)]
        begins, ends = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    else:
        pads = [0] * (2 * axes) if pads is None or auto_pad == "VALID" else list(pads)
        begins, ends = pads[:axes], pads[axes:]
    if axes not in _TRANSPOSED:
        raise NotImplementedError(f"convolutions over {axes} axes do not exist in PyTorch")
    # PyTorch takes one pad for both ends and output padding below the stride: use them where they say the same.
    low = [min(begin, end) for begin, end in zip(begins, ends)]
    simple = begins == low and all(pad >= 0 for pad in low)
    more = [e - (end - begin) for e, begin, end in zip(extra, begins, ends)]
    if simple and all(0 <= m < max(s, d) for m, s, d in zip(more, strides, dilations)):
        return _TRANSPOSED[axes](x, w, b, strides, low, more, group, dilations)
    result = _TRANSPOSED[axes](x, w, b, strides, 0, 0, group, dilations)
    flat = pad_list([-begin for begin in begins], [e - end for e, end in zip(extra, ends)])
    if b is not None and any(pad > 0 for pad in flat):  # what is added outside has the bias as well
        result = F.pad(result - b.reshape(-1, *(1,) * axes), flat)
        return result + b.reshape(-1, *(1,) * axes)
    return F.pad(result, flat)


@row("DeformConv", 19)
def deformable_convolution(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """A 2-D convolution whose taps are moved by offsets, with bilinear sampling."""
    if x.dim() != 4:
        raise NotImplementedError(f"deformable convolutions over {x.dim() - 2} axes")
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0, 0, 0, 0]
    n, channels, height, width = x.shape
    rows, columns = w.shape[2:]
    out_h, out_w = offset.shape[2:]
    taps = rows * columns
    offset = offset.reshape(n, offset_group, taps, 2, out_h, out_w)
    options: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
    base_y = torch.arange(out_h, **options) * strides[0] - pads[0]
    base_x = torch.arange(out_w, **options) * strides[1] - pads[1]
    tap_y = (torch.arange(rows, **options) * dilations[0]).repeat_interleave(columns)
    tap_x = (torch.arange(columns, **options) * dilations[1]).repeat(rows)
    y = offset[:, :, :, 0] + base_y.reshape(-1, 1) + tap_y.reshape(-1, 1, 1)
    z = offset[:, :, :, 1] + base_x + tap_x.reshape(-1, 1, 1)
    grid = torch.stack([2 * z / max(width - 1, 1) - 1, 2 * y / max(height - 1, 1) - 1], -1)
    if width == 1 or height == 1:  # grid_sample cannot tell apart positions of an axis of size 1
        x = F.pad(x, [0, 1 if width == 1 else 0, 0, 1 if height == 1 else 0])
        grid = torch.stack([2 * z / (x.shape[3] - 1) - 1, 2 * y / (x.shape[2] - 1) - 1], -1)
    source = x.reshape(n * offset_group, channels // offset_group, x.shape[2], x.shape[3])
    grid = grid.reshape(n * offset_group, taps * out_h, out_w, 2)
    sampled = F.grid_sample(source, grid, "bilinear", "zeros", align_corners=True)
    sampled = sampled.reshape(n, offset_group, channels // offset_group, taps, out_h, out_w)
    if mask is not None:
        sampled = sampled * mask.reshape(n, offset_group, 1, taps, out_h, out_w)
    patches = sampled.reshape(n, group, channels // group * taps, out_h * out_w)
    kernel = w.reshape(group, w.shape[0] // group, -1)
    result = torch.matmul(kernel, patches).reshape(n, w.shape[0], out_h, out_w)
    return result if b is None else result + b.reshape(-1, 1, 1)


@row("Col2Im", 18, host=(1, 2))
def column_to_image(
    x: Tensor, image: Any, block: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Tensor:
    """The sum of blocks at their places in an image of 1 or more axes."""
    axes = len(block)
    dilations, strides, pads = dilations or [1] * axes, strides or [1] * axes, pads or [0] * (2 * axes)
    taps = 1
    for width in block:
        taps *= width
    n, channels = x.shape[0], x.shape[1] // taps
    full = [size + pads[i] + pads[axes + i] for i, size in enumerate(image)]
    counts = [(f - d * (b - 1) - 1) // s + 1 for f, d, b, s in zip(full, dilations, block, strides)]
    index = torch.zeros((1, 1), dtype=torch.int64, device=x.device)
    for size, width, stride, dilation, count in zip(full, block, strides, dilations, counts):
        tap = torch.arange(width, device=x.device) * dilation
        place = tap.reshape(-1, 1) + torch.arange(count, device=x.device) * stride
        index = index[:, None, :, None] * size + place[None, :, None, :]
        index = index.reshape(index.shape[0] * width, -1)
    total = 1
    for size in full:
        total *= size
    flat = index.reshape(-1).expand(n, channels, -1)
    sums = torch.zeros((n, channels, total), dtype=x.dtype, device=x.device)
    result = sums.scatter_add(2, flat, x.reshape(n, channels, -1)).reshape([n, channels, *full])
    for axis, size in enumerate(image):
        result = result.narrow(2 + axis, pads[axis], size)
    return result


@row("CausalConvWithState", 27)
def causal_convolution(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    past: Tensor | None = None,
    *,
    activation: str = "none",
    outputs: int = 1,
) -> Any:
    """Each channel [batch, channels, length] convolved with its past, and the inputs that the next call needs."""
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation is '{activation}'")
    reach = w.shape[2] - 1
    full = F.pad(x, [reach, 0]) if past is None else torch.cat([past, x], 2)
    y = F.conv1d(full, w, b, groups=x.shape[1])
    y = y if activation == "none" else F.silu(y)
    return (y, full.narrow(2, full.shape[2] - reach, reach)) if outputs > 1 else y
