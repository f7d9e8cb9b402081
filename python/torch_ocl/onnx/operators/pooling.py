"""Pooling."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row
from .convolution import pad_list, resolve_pads

_MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE_POOLS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_SUMS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _windows(
    x: Tensor, kernel: list[int], strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil_mode: int
) -> tuple[list[int], list[int], list[Any], list[Any]]:
    """Strides, dilations, pads before and after; the latter so that floor mode gives the number of outputs."""
    axes = x.dim() - 2
    if len(kernel) != axes:
        raise ValueError(f"kernel_shape is {kernel}, the input has the shape {list(x.shape)}")
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    if min([*strides, *dilations, *kernel]) < 1:
        raise ValueError(f"kernel_shape {kernel}, strides {strides} and dilations {dilations} must be positive")
    sizes = x.shape[2:]
    both = resolve_pads(sizes, kernel, strides, dilations, pads, auto_pad)
    before, after = both[:axes], both[axes:]
    if ceil_mode:
        for axis in range(axes):
            window = (kernel[axis] - 1) * dilations[axis] + 1
            outputs = -(-(sizes[axis] + before[axis] + after[axis] - window) // strides[axis]) + 1
            if (outputs - 1) * strides[axis] >= sizes[axis] + before[axis]:
                outputs -= 1
            needed = (outputs - 1) * strides[axis] + window - sizes[axis] - before[axis]
            after[axis] = max(needed, after[axis])
    return strides, dilations, before, after


@row("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    outputs: int = 1,
) -> Any:
    """The largest element of each window, and where it is in the whole tensor."""
    axes, dtype, sizes = x.dim() - 2, x.dtype, x.shape[2:]
    strides, dilations, before, after = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if axes not in _MAX_POOLS:
        raise NotImplementedError(f"pooling over {axes} axes does not exist in PyTorch")
    x = x if x.is_floating_point() else x.to(torch.float32 if x.element_size() < 4 else torch.float64)
    direct = before == after and all(0 <= pad <= width // 2 for pad, width in zip(before, kernel_shape))
    if not direct:
        x = F.pad(x, pad_list(before, after), value=-math.inf)
    padding = before if direct else [0] * axes
    if outputs == 1:
        return _MAX_POOLS[axes](x, kernel_shape, strides, padding, dilations).to(dtype)
    values, places = _MAX_POOLS[axes](x, kernel_shape, strides, padding, dilations, return_indices=True)
    coordinates: list[Tensor] = []
    for size, low in zip(reversed(x.shape[2:]), reversed(before)):
        coordinates.insert(0, places % size - (0 if direct else low))
        places = places // size
    order = range(axes) if not storage_order else reversed(range(axes))
    index = torch.zeros_like(places)
    for axis in order:
        index = index * sizes[axis] + coordinates[axis]
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(x.shape[0], x.shape[1], *[1] * axes)
    return values.to(dtype), index + planes * math.prod(sizes)


def _sums(x: Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> Tensor:
    """Sums of windows, for each channel."""
    axes = len(kernel)
    if axes not in _SUMS:
        raise NotImplementedError(f"pooling over {axes} axes does not exist in PyTorch")
    planes = x.reshape(-1, 1, *x.shape[2:])
    ones = torch.ones((1, 1, *kernel), dtype=x.dtype, device=x.device)
    sums = _SUMS[axes](planes, ones, None, strides, 0, dilations)
    return sums.reshape(*x.shape[:2], *sums.shape[2:])


@row("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """The mean of each window, of the elements inside or of the pads too."""
    axes = x.dim() - 2
    given = resolve_pads(x.shape[2:], kernel_shape, strides or [1] * axes, dilations or [1] * axes, pads, auto_pad)
    strides, dilations, before, after = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    plain = before == after and all(0 <= pad <= width // 2 for pad, width in zip(before, kernel_shape))
    if plain and axes in _AVERAGE_POOLS and all(d == 1 for d in dilations) and before + after == given:
        return _AVERAGE_POOLS[axes](x, kernel_shape, strides, before, False, bool(count_include_pad))
    inside = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
    if count_include_pad:
        inside = F.pad(inside, pad_list(given[:axes], given[axes:]), value=1)
        more = [high - low for high, low in zip(after, given[axes:])]
        inside = F.pad(inside, pad_list([0] * axes, more))
    else:
        inside = F.pad(inside, pad_list(before, after))
    sums = _sums(F.pad(x, pad_list(before, after)), kernel_shape, strides, dilations)
    return sums / _sums(inside, kernel_shape, strides, dilations)


@row("LpPool")
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    p: float = 2,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """The p-norm of each window."""
    strides, dilations, before, after = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = F.pad(torch.abs(x) ** p, pad_list(before, after))
    return _sums(powers, kernel_shape, strides, dilations) ** (1.0 / p)


def _spatial(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


@row("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    if x.dim() == 4:
        return F.adaptive_avg_pool2d(x, 1)
    return torch.mean(x, _spatial(x), True)


@row("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The largest element of each channel."""
    return torch.amax(x, _spatial(x), True)


@row("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """The p-norm of each channel."""
    return torch.sum(torch.abs(x) ** p, _spatial(x), True) ** (1.0 / p)


@row("MaxUnpool", 9, host=(2,))
def max_unpool(
    x: Tensor, places: Tensor, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Tensor:
    """Elements back at the places that MaxPool gives, zeros elsewhere."""
    axes = len(kernel_shape)
    strides, pads = strides or [1] * axes, pads or [0] * (2 * axes)
    sizes = [
        (size - 1) * stride - pads[axis] - pads[axes + axis] + width
        for axis, (size, stride, width) in enumerate(zip(x.shape[2:], strides, kernel_shape))
    ]
    shape = [*x.shape[:2], *sizes]
    flat = torch.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    result = flat.scatter(0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    if output_shape is not None:
        grow = [wanted - size for wanted, size in zip(output_shape, shape)]
        result = F.pad(result, [pad for size in reversed(grow) for pad in (0, size)])
    return result


@row("MaxRoiPool")
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: Any, spatial_scale: float = 1.0) -> Tensor:
    """The largest element of each cell of regions [batch, x1, y1, x2, y2]. Reads the regions: waits for the device."""
    results = []
    height, width = x.shape[2:]
    rows, columns = pooled_shape
    for batch, *corners in rois.tolist():
        x1, y1, x2, y2 = (math.floor(value * spatial_scale + 0.5) for value in corners)
        step_y, step_x = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
        cells = []
        for i in range(rows):
            top, bottom = (
                min(max(math.floor(i * step_y) + y1, 0), height),
                min(max(math.ceil((i + 1) * step_y) + y1, 0), height),
            )
            for j in range(columns):
                left = min(max(math.floor(j * step_x) + x1, 0), width)
                right = min(max(math.ceil((j + 1) * step_x) + x1, 0), width)
                cell = x[int(batch), :, top:bottom, left:right]
                cells.append(cell.amax((1, 2)) if bottom > top and right > left else x.new_zeros(x.shape[1]))
        results.append(torch.stack(cells, 1).reshape(x.shape[1], rows, columns))
    return torch.stack(results) if results else x.new_zeros((0, x.shape[1], rows, columns))
