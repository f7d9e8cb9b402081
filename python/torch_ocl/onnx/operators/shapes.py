"""Operators that move or copy elements: shapes, slices, concatenation, padding."""

import math
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row

Size = Any  # int or SymInt


@row("Shape", 1)
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Tensor:
    """Sizes of the axes start to end, for constants; the importer emits others itself."""
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


@row("Size", 1)
def size(x: Any) -> Tensor:
    """The number of elements, for constants; the importer emits others itself."""
    return torch.tensor(math.prod(x.shape), dtype=torch.int64)


def _target(x: Any, sizes: list[Size], allowzero: int) -> list[Size]:
    """The shape that Reshape means: 0 copies a size."""
    result = []
    for axis, wanted in enumerate(sizes):
        copies = isinstance(wanted, int) and wanted == 0 and not allowzero
        if copies and axis >= len(x.shape):
            raise ValueError(f"shape {sizes} copies axis {axis} of an input with {len(x.shape)} axes")
        result.append(x.shape[axis] if copies else wanted)
    return result


@row("Reshape", 5, host=(1,))
def reshape(x: Any, sizes: list[Size], *, allowzero: int = 0) -> Any:
    """x with another shape; -1 is what remains, 0 copies a size unless allowzero."""
    return x.reshape(_target(x, sizes, allowzero))


@row("Reshape", 1)
def reshape_by_attribute(x: Tensor, *, shape: Any) -> Tensor:
    """Reshape with the shape as an attribute."""
    return x.reshape(_target(x, shape, 0))


@row("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """x as a matrix: the axes before `axis` are its rows."""
    axis = axis + x.dim() if axis < 0 else axis
    if not 0 <= axis <= x.dim():
        raise ValueError(f"axis {axis} is not one of {x.dim()}")
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    return x.reshape(rows, columns)


@row("Transpose")
def transpose(x: Any, *, perm: Any = None) -> Any:
    """x with its axes in the order perm, reversed without it."""
    order = list(range(len(x.shape)))[::-1] if perm is None else perm
    return x.transpose(order) if isinstance(x, numpy.ndarray) else x.permute(order)


@row("Squeeze", 13, host=(1,))
def squeeze(x: Tensor, axes: Any = None) -> Tensor:
    """x without the axes of size 1 that are named, or without all of them."""
    if axes is None:
        return x.squeeze()
    axes = axes if isinstance(axes, (list, tuple)) else [axes]
    for axis in axes:
        if isinstance(x.shape[axis], int) and x.shape[axis] != 1:
            raise ValueError(f"axis {axis} of size {x.shape[axis]} cannot be squeezed")
    return x.squeeze(tuple(axes))


@row("Squeeze", 1)
def squeeze_by_attribute(x: Tensor, *, axes: Any = None) -> Tensor:
    """Squeeze with the axes as an attribute."""
    return squeeze(x, axes)


@row("Unsqueeze", 13, host=(1,))
def unsqueeze(x: Any, axes: Any) -> Any:
    """x with axes of size 1 where the result's axes are named."""
    axes = axes if isinstance(axes, (list, tuple)) else [axes]
    rank = len(x.shape) + len(axes)
    places = sorted(axis + rank if axis < 0 else axis for axis in axes)
    if len(set(places)) != len(places) or any(not 0 <= place < rank for place in places):
        raise ValueError(f"axes {list(axes)} are not axes of a tensor with {rank}")
    for place in places:
        x = numpy.expand_dims(x, place) if isinstance(x, numpy.ndarray) else x.unsqueeze(place)
    return x


@row("Unsqueeze", 1)
def unsqueeze_by_attribute(x: Tensor, *, axes: Any) -> Any:
    """Unsqueeze with the axes as an attribute."""
    return unsqueeze(x, axes)


@row("Expand", 8, host=(1,))
def expand(x: Tensor, sizes: list[Size]) -> Tensor:
    """x broadcast together with a shape."""
    full = list(x.shape)
    missing = len(sizes) - len(full)
    full = [1] * missing + full if missing > 0 else full
    wanted = [1] * -missing + list(sizes) if missing < 0 else list(sizes)
    return x.expand([a if isinstance(b, int) and b == 1 else b for a, b in zip(full, wanted)])


@row("Tile", 6, host=(1,))
def tile(x: Tensor, repeats: list[Size]) -> Tensor:
    """x repeated along its axes."""
    if len(repeats) != x.dim():
        raise ValueError(f"{len(repeats)} repeats for {x.dim()} axes")
    return x.repeat(tuple(repeats))


@row("Concat", 4)
def concat(*parts: Any, axis: int) -> Any:
    """The inputs one behind the other along the axis."""
    if any(isinstance(part, numpy.ndarray) for part in parts):
        return numpy.concatenate(parts, axis)
    return torch.cat(parts, axis)


@row("Concat", 1)
def concat_1(*parts: Tensor, axis: int = 1) -> Tensor:
    """Concat of opset 1, where the axis may be absent."""
    return torch.cat(parts, axis)


def slice_axis(x: Tensor, axis: int, start: Size, end: Size, step: int) -> Tensor:
    """Elements start, start + step, ... before end of one axis, by ONNX's rules for huge and negative values."""
    if step > 0:
        index = [slice(None)] * (axis % x.dim()) + [slice(start, end, step)]
        return x[tuple(index)]
    count = x.shape[axis]
    places = range(*slice(start, None if end < -count else end, step).indices(int(count)))
    if step == -1 and len(places):
        return x.narrow(axis, places[-1], len(places)).flip(axis)
    return x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))


@row("Slice", 10, host=(1, 2, 3, 4))
def slice_(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Parts of the axes: from starts to before ends by steps."""
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step == 0:
            raise ValueError("a step is 0")
        if not -x.dim() <= axis < x.dim():
            raise ValueError(f"axis {axis} is not one of {x.dim()}")
        x = slice_axis(x, axis, start, end, step)
    return x


@row("Slice", 1)
def slice_by_attributes(x: Tensor, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    """Slice with its parts as attributes."""
    return slice_(x, starts, ends, axes)


def _split(x: Tensor, sizes: list[Size], axis: int) -> tuple[Tensor, ...]:
    return (
        tuple(x.split_with_sizes(sizes, axis))
        if not isinstance(x, numpy.ndarray)
        else tuple(numpy.split(x, numpy.cumsum(sizes)[:-1], axis))
    )


def _equal_parts(count: Size, parts: int) -> list[Size]:
    """Sizes of `parts` pieces of `count`, the last may be smaller."""
    largest = -(-count // parts)
    return [largest] * (parts - 1) + [count - largest * (parts - 1)]


@row("Split", 13, host=(1,))
def split(x: Tensor, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int = 1) -> Any:
    """Pieces of the sizes, or equal ones, along the axis."""
    if sizes is None:
        sizes = _equal_parts(x.shape[axis], outputs if num_outputs is None else num_outputs)
    parts = _split(x, list(sizes), axis)
    return parts if outputs > 1 else parts[0]


@row("Split", 1)
def split_by_attribute(x: Tensor, sizes: Any = None, *, axis: int = 0, split: Any = None, outputs: int = 1) -> Any:
    """Split with the sizes as an attribute."""
    parts = _split(x, split or _equal_parts(x.shape[axis], outputs), axis)
    return parts if outputs > 1 else parts[0]


def _pad_index(size: int, before: int, after: int, mode: str) -> list[int]:
    """Which element of the axis each element of the padded axis is."""
    places = range(-before, size + after)
    if mode == "edge":
        return [min(max(place, 0), size - 1) for place in places]
    if mode == "wrap":
        return [place % size for place in places]
    period = max(2 * (size - 1), 1)
    return [min(place % period, period - place % period) if size > 1 else 0 for place in places]


def pad_tensor(x: Tensor, pads: Any, axes: Any, mode: str, value: Any) -> Tensor:
    """x padded before and after the axes; negative pads cut."""
    if len(pads) != 2 * len(axes):
        raise ValueError(f"{len(pads)} pads for {len(axes)} axes")
    before, after = pads[: len(axes)], pads[len(axes) :]
    if mode == "constant":
        flat: list[Size] = [0] * (2 * x.dim())
        for axis, low, high in zip(axes, before, after):
            place = 2 * (x.dim() - 1 - axis % x.dim())
            flat[place], flat[place + 1] = low, high
        if not any(not isinstance(part, int) or part for part in flat):
            return x
        if x.dtype == torch.bool:
            return F.pad(x.to(torch.uint8), flat, value=float(bool(value))).to(torch.bool)
        return F.pad(x, flat, value=value)
    if mode not in ("reflect", "edge", "wrap"):
        raise ValueError(f"mode is '{mode}', expected constant, reflect, edge or wrap")
    for axis, low, high in zip(axes, before, after):
        if low or high:
            places = _pad_index(int(x.shape[axis]), low, high, mode)
            x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
    return x


@row("Pad", 11, host=(1, 2, 3))
def pad(x: Tensor, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Tensor:
    """x padded by a value, its reflection, its edge or itself; negative pads cut."""
    if isinstance(value, (list, tuple)):
        value = value[0]
    axes = list(range(x.dim())) if axes is None else axes if isinstance(axes, (list, tuple)) else [axes]
    return pad_tensor(x, list(pads), axes, mode, 0 if value is None else value)


@row("Pad", 2)
def pad_by_attributes(x: Tensor, *, pads: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pad with the sizes as an attribute."""
    return pad_tensor(x, pads, list(range(x.dim())), mode, value)


@row("Pad", 1)
def pad_1(x: Tensor, *, paddings: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pad of opset 1."""
    return pad_tensor(x, paddings, list(range(x.dim())), mode, value)


@row("CenterCropPad", 18, host=(1,))
def center_crop_pad(x: Tensor, sizes: Any, *, axes: Any = None) -> Tensor:
    """x cut or padded by zeros around its centre to the sizes."""
    for axis, wanted in zip(range(x.dim()) if axes is None else axes, sizes):
        have = x.shape[axis]
        if have > wanted:
            x = x.narrow(axis, (have - wanted) // 2, wanted)
        elif have < wanted:
            low = (wanted - have) // 2
            x = pad_tensor(x, [low, wanted - have - low], [axis], "constant", 0)
    return x


@row("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of channels moved to rows and columns."""
    n, c, *sizes = x.shape
    axes, rank = len(sizes), blocksize ** len(sizes)
    block = [blocksize] * axes
    if mode == "DCR":
        parts = x.reshape([n, *block, c // rank, *sizes])
        order = [0, axes + 1, *(part for i in range(axes) for part in (axes + 2 + i, 1 + i))]
    else:
        parts = x.reshape([n, c // rank, *block, *sizes])
        order = [0, 1, *(part for i in range(axes) for part in (axes + 2 + i, 2 + i))]
    return parts.permute(order).reshape([n, c // rank, *(size * blocksize for size in sizes)])


@row("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of rows and columns moved to channels."""
    n, c, *sizes = x.shape
    axes = len(sizes)
    parts = x.reshape([n, c, *(part for size in sizes for part in (size // blocksize, blocksize))])
    blocks, rest = [3 + 2 * i for i in range(axes)], [2 + 2 * i for i in range(axes)]
    order = [0, *blocks, 1, *rest] if mode == "DCR" else [0, 1, *blocks, *rest]
    return parts.permute(order).reshape([n, c * blocksize**axes, *(size // blocksize for size in sizes)])


@row("ReverseSequence", 10)
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Each batch with its first elements reversed."""
    count = x.shape[time_axis]
    place = torch.arange(count, device=x.device)
    lengths = lengths.unsqueeze(1)
    index = torch.where(place < lengths, lengths - 1 - place, place)
    if time_axis < batch_axis:
        index = index.t()
    rest = (1,) * (x.dim() - 2)
    return x.gather(time_axis, index.reshape(tuple(index.shape) + rest).expand(x.shape))


@row("Trilu", 14, host=(1,))
def trilu(x: Tensor, diagonal: Any = None, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle, zeros elsewhere."""
    offset = 0 if diagonal is None else diagonal[0] if isinstance(diagonal, (list, tuple)) else diagonal
    return torch.triu(x, offset) if upper else torch.tril(x, offset)
