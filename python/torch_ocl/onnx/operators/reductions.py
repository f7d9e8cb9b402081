"""Reductions, scans and positions of extremes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..registry import add, row, widened

Reducer = Callable[[Tensor, list[int], bool], Tensor]


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.sum(x, axes, keep, dtype=x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, axes, keep)
    return torch.mean(x.to(torch.float64), axes, keep).to(x.dtype)


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = torch.prod(x, axis, keep, dtype=x.dtype)
    return x


def _extreme(largest: bool) -> Reducer:
    def reduce(x: Tensor, axes: list[int], keep: bool) -> Tensor:
        if any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes):
            shape = [1 if axis in {a % x.dim() for a in axes} else size for axis, size in enumerate(x.shape)]
            if x.is_floating_point():
                bound: Any = -torch.inf if largest else torch.inf
            elif x.dtype == torch.bool:
                bound = not largest
            else:
                limits = torch.iinfo(x.dtype)
                bound = limits.min if largest else limits.max
            full = torch.full(shape, bound, dtype=x.dtype, device=x.device)
            return full if keep else full.squeeze(tuple(axes))
        if x.dtype == torch.bool:
            return (torch.any if largest else torch.all)(x, tuple(axes), keep)
        return (torch.amax if largest else torch.amin)(x, axes, keep)

    return reduce


def _norm2(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if not x.is_floating_point():
        return torch.sqrt(_sum(x * x, axes, keep).to(torch.float64)).to(x.dtype)
    return torch.sqrt(_sum(x * x, axes, keep))


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if not x.is_floating_point():
        return torch.logsumexp(x.to(torch.float64), axes, keep).to(x.dtype)
    return torch.logsumexp(x, axes, keep)


def _log_sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.log(_sum(x, axes, keep)).to(x.dtype)


_REDUCERS: dict[str, Reducer] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _extreme(True),
    "ReduceMin": _extreme(False),
    "ReduceL1": lambda x, axes, keep: _sum(torch.abs(x), axes, keep),
    "ReduceL2": _norm2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}


def _reduction(reducer: Reducer) -> Callable[..., Tensor]:
    reducer = widened(reducer)

    def reduce(x: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        if not axes:
            if noop_with_empty_axes:
                return reducer(x.unsqueeze(0), [0], False)
            axes = list(range(x.dim()))
        if x.dim() == 0:
            return reducer(x.reshape(1), [0], False)
        for axis in axes:
            if not -x.dim() <= axis < x.dim():
                raise ValueError(f"axis {axis} is not one of {x.dim()}")
        return reducer(x, list(axes), bool(keepdims))

    return reduce


def _by_attribute(reducer: Reducer) -> Callable[..., Tensor]:
    inner = _reduction(reducer)

    def reduce(x: Tensor, *, axes: Any = None, keepdims: int = 1) -> Tensor:
        return inner(x, axes, keepdims=keepdims)

    return reduce


for _name, _reducer in _REDUCERS.items():
    add(_name, 1, _by_attribute(_reducer), family="reductions")
    add(_name, 13 if _name == "ReduceSum" else 18, _reduction(_reducer), host=(1,), family="reductions")


def _position(function: Callable[..., Tensor], x: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    if last:
        flipped = function(x.flip(axis), axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - flipped
    return function(x, axis, keepdim=bool(keepdims))


@row("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the largest element along the axis is; the first or the last of equal ones."""
    return _position(torch.argmax, x, axis, keepdims, select_last_index)


@row("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the smallest element along the axis is; the first or the last of equal ones."""
    return _position(torch.argmin, x, axis, keepdims, select_last_index)


def _cumulative(x: Tensor, axis: Any, exclusive: int, reverse: int, product: bool) -> Tensor:
    axis = axis[0] if isinstance(axis, (list, tuple)) else axis
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), 1 if product else 0)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    x = torch.cumprod(x, axis, dtype=x.dtype) if product else torch.cumsum(x, axis, dtype=x.dtype)
    return x.flip(axis) if reverse else x


@row("CumSum", 11, host=(1,))
def cumulative_sum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Sums of the elements up to each, without it (exclusive), from the end (reverse)."""
    return _cumulative(x, axis, exclusive, reverse, False)


@row("CumProd", 26, host=(1,))
def cumulative_product(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Products of the elements up to each, without it (exclusive), from the end (reverse)."""
    return _cumulative(x, axis, exclusive, reverse, True)
