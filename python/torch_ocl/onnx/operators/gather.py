"""Reading and writing elements by index."""

from typing import Any

import numpy
import torch
from torch import Tensor

from .. import types
from ..registry import row


def _wrapped(indices: Tensor, size: Any) -> Tensor:
    """Negative indices counted from the end, as int64."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


@row("Gather", numbers=(1,))
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Slices of x along the axis."""
    if isinstance(x, numpy.ndarray):
        return numpy.asarray(
            numpy.take(x, indices.cpu().numpy() if isinstance(indices, Tensor) else indices, axis), object
        )
    if not isinstance(indices, Tensor):
        return x.select(axis, indices)
    axis = axis + x.dim() if axis < 0 else axis
    if not 0 <= axis < x.dim():
        raise ValueError(f"axis {axis} is not one of {x.dim()}")
    flat = _wrapped(indices.reshape(-1), x.shape[axis])
    narrow = x.dtype in types.FLOAT8
    source = x.view(torch.uint8) if narrow else x
    result = source.index_select(axis, flat).reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])
    return result.view(x.dtype) if narrow else result


@row("GatherElements", 11)
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """One element of x for each index, along the axis."""
    return x.gather(axis, _wrapped(indices, x.shape[axis]))


@row("GatherND", 11)
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices of x by tuples of indices, behind batch_dims axes in common."""
    depth = int(indices.shape[-1])
    parts = [_wrapped(indices[..., i], x.shape[batch_dims + i]) for i in range(depth)]
    batch = []
    for axis in range(batch_dims):
        shape = [1] * (indices.dim() - 1)
        shape[axis] = -1
        batch.append(torch.arange(x.shape[axis], device=x.device).reshape(shape))
    return x[tuple(batch + parts)]


_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


@row("ScatterElements", 11)
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """x with elements replaced, or combined by add, mul, min or max."""
    index = _wrapped(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTIONS[reduction])


@row("Scatter", 9)
def scatter(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    """The name of ScatterElements before opset 11."""
    return scatter_elements(x, indices, updates, axis=axis)


@row("ScatterND", 11)
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with slices replaced, or combined by add, mul, min or max."""
    depth = int(indices.shape[-1])
    parts = tuple(_wrapped(indices[..., i], x.shape[i]) for i in range(depth))
    if reduction == "none":
        return x.index_put(parts, updates)
    if reduction == "add":
        return x.index_put(parts, updates, accumulate=True)
    rows, columns = 1, 1
    flat = torch.zeros_like(parts[0])
    for size, part in zip(x.shape[:depth], parts):
        flat, rows = flat * size + part, rows * size
    for size in x.shape[depth:]:
        columns *= size
    table, flat = x.reshape(rows, columns), flat.reshape(-1, 1).expand(-1, columns)
    combined = table.scatter_reduce(0, flat, updates.reshape(-1, columns), _REDUCTIONS[reduction])
    return combined.reshape(x.shape)


@row("TensorScatter", 24)
def tensor_scatter(
    cache: Tensor, update: Tensor, places: Tensor | None = None, *, mode: str = "linear", axis: int = -2
) -> Tensor:
    """A cache with new entries written from one place for each batch; circular caches wrap."""
    axis = axis % cache.dim()
    count, size = update.shape[axis], cache.shape[axis]
    index = torch.arange(count, device=cache.device).reshape(1, -1)
    if places is not None:
        index = index + places.to(torch.int64).reshape(-1, 1)
    if mode == "circular":
        index = index % size
    shape = [1] * cache.dim()
    shape[0], shape[axis] = index.shape[0], count
    return cache.scatter(axis, index.reshape(shape).expand(update.shape), update)


@row("Compress", 9)
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Slices (or elements) where the condition holds. The size depends on data: waits for the device."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    places = torch.nonzero(condition[: x.shape[axis]]).reshape(-1)
    return x.index_select(axis, places)


@row("NonZero", 9)
def non_zero(x: Tensor) -> Tensor:
    """Indices of elements that are not zero, one column each. Waits for the device."""
    places = torch.nonzero(x.reshape(1) if x.dim() == 0 else x)
    return places.t() if x.dim() else places.t()[:0]


@row("OneHot", 9)
def one_hot(indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at the indices along a new axis, values[0] elsewhere."""
    return one_hot_of(indices, int(depth), values, axis)


def one_hot_of(indices: Tensor, depth: int, values: Tensor, axis: int) -> Tensor:
    """OneHot with its depth as a number."""
    rank = indices.dim() + 1
    axis = axis + rank if axis < 0 else axis
    index = indices.to(torch.int64)
    index = torch.where((index < 0) & (index >= -depth), index + depth, index).unsqueeze(axis)
    shape = [1] * rank
    shape[axis] = -1
    hot = index == torch.arange(depth, device=indices.device).reshape(shape)
    return torch.where(hot, values[1], values[0])


@row("Unique", 11)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    """Different values (or slices), where each was first, and which one each element is. Waits for the device."""
    source = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    values, inverse, counts = torch.unique(source, sorted=True, return_inverse=True, return_counts=True, dim=along)
    size = source.shape[along]
    place = torch.arange(size, device=x.device)
    first = torch.full((counts.shape[0],), size, dtype=torch.int64, device=x.device)
    first = first.scatter_reduce(0, inverse, place, "amin")
    if not sorted:
        order = torch.argsort(first)
        rank = torch.empty_like(order).scatter(0, order, torch.arange(order.shape[0], device=x.device))
        values, first, counts, inverse = values.index_select(along, order), first[order], counts[order], rank[inverse]
    return values, first, inverse, counts


@row("TopK", 11, host=(1,))
def top_k(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The k largest or smallest elements in order, and their indices; of equal ones the lower index."""
    count = k[0] if isinstance(k, (list, tuple)) else k
    if isinstance(count, int) and not 0 <= count <= x.shape[axis]:
        raise ValueError(f"k is {count}, the axis has {x.shape[axis]} elements")
    values, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@row("TopK", 10, host=(1,))
def top_k_10(x: Tensor, k: Any, *, axis: int = -1) -> Any:
    """TopK of the largest."""
    return top_k(x, k, axis=axis)


@row("TopK", 1)
def top_k_1(x: Tensor, *, k: int, axis: int = -1) -> Any:
    """TopK with k as an attribute."""
    return top_k(x, k, axis=axis)


@row("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_features(x: Tensor, indices: Tensor) -> Tensor:
    """Columns of x."""
    return x.reshape(-1, x.shape[-1]).index_select(-1, indices.reshape(-1).to(torch.int64))
