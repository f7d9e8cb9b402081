"""Arithmetic on shape values: Python numbers and lists of them, which may be SymInts while torch.export traces.

ONNX computes sizes with tensors. On a device each of them would be a wait for the queue, and torch.export could not
follow. So chains that start at Shape, Size and small constants are computed here; the importer decides at import which
values have such a form. Rank 0 is a number and rank 1 is a list; larger ranks have none.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from . import types
from .registry import published

Number = Any  # int, float, bool, SymInt, SymFloat, SymBool
Host = Any  # a Number or a list of them

_INTEGERS = {types.INT8, types.INT16, types.INT32, types.INT64, types.UINT8, types.UINT16, types.UINT32, types.UINT64}
_CASTS = _INTEGERS | {types.BOOL, types.FLOAT, types.DOUBLE}


@dataclass(frozen=True)
class Extent:
    """What is known at import of the shape of a host value."""

    rank: int  # 0 or 1
    length: int | None = None  # of rank 1


ExtentRule = Callable[[list[Extent], dict[str, Any], list[Any]], Extent | None]


@dataclass(frozen=True)
class Rule:
    """How an operator is computed on the host. `extent` says whether it can be, from the inputs' extents, the
    attributes and the inputs' values where they are known at import (None elsewhere)."""

    function: Callable[..., Host]
    extent: ExtentRule


RULES: dict[str, Rule] = {}


def _rule(name: str, extent: ExtentRule) -> Callable[[Callable[..., Host]], Callable[..., Host]]:
    def register(function: Callable[..., Host]) -> Callable[..., Host]:
        RULES[name] = Rule(published(function, f"host_{name}"), extent)
        return function

    return register


def round_to(value: Number, element: int) -> Number:
    """`value` as a float of type `element` holds it."""
    if element == types.FLOAT and type(value) is float:
        return float(numpy.float32(value))
    return value


def each(function: Callable[..., Number], *operands: Host) -> Host:
    """Applies `function` with ONNX's broadcasting."""
    lengths = [len(operand) for operand in operands if isinstance(operand, (list, tuple))]
    if not lengths:
        return function(*operands)
    count = max(lengths) if min(lengths) == 1 else min(lengths)
    if any(length not in (1, count) for length in lengths):
        raise ValueError(f"shapes {[[length] for length in lengths]} do not broadcast")
    columns = [
        (list(part) * count if len(part) == 1 else part) if isinstance(part, (list, tuple)) else [part] * count
        for part in operands
    ]
    return [function(*values) for values in zip(*columns)]


def _broadcast(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    rank = max((extent.rank for extent in extents), default=0)
    lengths = [extent.length for extent in extents if extent.rank == 1]
    if rank == 0:
        return Extent(0)
    known = [length for length in lengths if length is not None]
    return Extent(1, max(known) if len(known) == len(lengths) else next((n for n in known if n > 1), None))


def divide(a: Number, b: Number) -> Number:
    """Quotient as ONNX rounds it: integers towards zero."""
    if isinstance(a, float) or isinstance(b, float) or isinstance(a, torch.SymFloat) or isinstance(b, torch.SymFloat):
        return a / b
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b) if (a < 0) != (b < 0) else a // b
    return a // b


def _modulo(a: Number, b: Number, fmod: int = 0) -> Number:
    return math.fmod(a, b) if fmod and isinstance(a, float) else int(math.fmod(a, b)) if fmod else a % b


def _cast(value: Number, to: int) -> Number:
    if to == types.BOOL:
        return value != 0
    if to in _INTEGERS:
        return torch.sym_int(value)
    return round_to(torch.sym_float(value), to)


_BINARY: dict[str, Callable[..., Number]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": divide,
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
}
_UNARY: dict[str, Callable[[Number], Number]] = {
    "Identity": lambda value: value,
    "Neg": operator.neg,
    "Abs": abs,
    "Not": operator.not_,
    "Floor": lambda value: float(math.floor(value)),
    "Ceil": lambda value: float(math.ceil(value)),
    "Sqrt": torch.sym_sqrt,
}


def _elementwise(function: Callable[..., Number]) -> Callable[..., Host]:
    def compute(*operands: Host, element: int = 0) -> Host:
        result = each(function, *operands)
        return each(lambda value: round_to(value, element), result) if element == types.FLOAT else result

    return compute


for _name, _function in {**_BINARY, **_UNARY}.items():
    _rule(_name, _broadcast)(_elementwise(_function))


@_rule("Mod", _broadcast)
def _(a: Host, b: Host, *, fmod: int = 0, element: int = 0) -> Host:
    return each(lambda x, y: _modulo(x, y, fmod), a, b)


def _least(*values: Number) -> Number:
    return _fold(torch.sym_min, values)


def _largest(*values: Number) -> Number:
    return _fold(torch.sym_max, values)


@_rule("Min", _broadcast)
def _(*operands: Host, element: int = 0) -> Host:
    return each(_least, *operands)


@_rule("Max", _broadcast)
def _(*operands: Host, element: int = 0) -> Host:
    return each(_largest, *operands)


def _fold(function: Callable[[Number, Number], Number], values: tuple[Number, ...]) -> Number:
    result = values[0]
    for value in values[1:]:
        result = function(result, value)
    return result


@_rule("Where", _broadcast)
def _(condition: Host, a: Host, b: Host, *, element: int = 0) -> Host:
    return each(lambda c, x, y: x if c else y, condition, a, b)


@_rule("Cast", lambda extents, attributes, values: extents[0] if attributes.get("to") in _CASTS else None)
def _(data: Host, *, to: int, element: int = 0, saturate: int = 1, round_mode: str = "up") -> Host:
    return each(lambda value: _cast(value, to), data)


def _gather_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    return extents[1] if extents[0].rank == 1 else None


@_rule("Gather", _gather_extent)
def _(data: Host, indices: Host, *, axis: int = 0, element: int = 0) -> Host:
    return each(lambda index: data[index], indices)


def _concat_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    if any(extent.rank != 1 for extent in extents):
        return None
    lengths = [extent.length for extent in extents]
    return Extent(1, None if None in lengths else sum(length or 0 for length in lengths))


@_rule("Concat", _concat_extent)
def _(*parts: Host, axis: int = 0, element: int = 0) -> Host:
    return [value for part in parts for value in part]


def _unsqueeze_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    axes = attributes.get("axes", values[1] if len(values) > 1 else None)
    single = isinstance(axes, int) or (axes is not None and len(axes) == 1)
    return Extent(1, 1) if extents[0].rank == 0 and single else None


@_rule("Unsqueeze", _unsqueeze_extent)
def _(data: Host, axes_input: Host = None, *, axes: Any = None, element: int = 0) -> Host:
    return [data]


def _squeeze_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    axes = attributes.get("axes", values[1] if len(values) > 1 else None)
    axes = [axes] if isinstance(axes, int) else axes
    if extents[0].rank == 0:
        return Extent(0) if not axes else None
    return Extent(0) if extents[0].length == 1 or (axes is not None and len(axes) == 1) else None


@_rule("Squeeze", _squeeze_extent)
def _(data: Host, axes_input: Host = None, *, axes: Any = None, element: int = 0) -> Host:
    if not isinstance(data, (list, tuple)):
        return data
    if len(data) != 1:
        raise ValueError(f"cannot squeeze an axis of size {len(data)}")
    return data[0]


def _reshape_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    shape = attributes.get("shape", values[1] if len(values) > 1 else None)
    if shape is None or not isinstance(shape, list) or len(shape) > 1:
        return None
    if not shape:
        return Extent(0)
    length = 1 if extents[0].rank == 0 else extents[0].length
    return Extent(1, length if shape[0] in (-1, 0) else shape[0])


@_rule("Reshape", _reshape_extent)
def _(data: Host, size: Host = None, *, shape: Any = None, allowzero: int = 0, element: int = 0) -> Host:
    target = size if shape is None else shape
    values = list(data) if isinstance(data, (list, tuple)) else [data]
    if (target and target[0] not in (-1, 0, len(values))) or (not target and len(values) != 1):
        raise ValueError(f"{len(values)} values do not have the shape {target}")
    return values if target else values[0]


def _slice_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    if extents[0].rank != 1:
        return None
    starts, ends = (
        attributes.get(key, values[i] if len(values) > i else None) for key, i in (("starts", 1), ("ends", 2))
    )
    steps = values[4] if len(values) > 4 and values[4] is not None else [1]
    if extents[0].length is None or starts is None or ends is None:
        return Extent(1)
    return Extent(1, len(range(extents[0].length)[starts[0] : ends[0] : steps[0]]))


@_rule("Slice", _slice_extent)
def _(
    data: Host,
    first: Host = None,
    last: Host = None,
    axes_input: Host = None,
    steps: Host = None,
    *,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
    element: int = 0,
) -> Host:
    begin, end = (first if starts is None else starts)[0], (last if ends is None else ends)[0]
    step = 1 if steps is None else steps[0]
    if step < 0 and end < -len(data):
        end = None
    return list(data)[begin:end:step]


def _filled_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    """Of one axis and of a size that is known now and small: other tensors belong on the device."""
    shape = values[0]
    return Extent(1, shape[0]) if isinstance(shape, list) and len(shape) == 1 and 0 <= shape[0] <= 64 else None


@_rule("ConstantOfShape", _filled_extent)
def _(shape: Host, *, value: Any = None, element: int = 0) -> Host:
    return [0.0 if value is None else value.reshape(-1)[0].item()] * shape[0]


def _expand_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    shape = values[1]
    if not isinstance(shape, list) or len(shape) != 1 or not 0 <= shape[0] <= 64:
        return None
    return Extent(1, max(shape[0], extents[0].length or 1) if extents[0].rank == 0 or extents[0].length else None)


def _first_of(value: Number, _: Number) -> Number:
    return value


@_rule("Expand", _expand_extent)
def _(data: Host, shape: Host, *, element: int = 0) -> Host:
    return each(_first_of, data, [0] * shape[0])


def _reduce_extent(extents: list[Extent], attributes: dict[str, Any], values: list[Any]) -> Extent | None:
    if extents[0].rank != 1 or attributes.get("noop_with_empty_axes"):
        return None
    return Extent(1, 1) if attributes.get("keepdims", 1) else Extent(0)


def _reduction(function: Callable[[list[Number]], Number]) -> Callable[..., Host]:
    def compute(
        data: Host,
        axes_input: Host = None,
        *,
        axes: Any = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
        element: int = 0,
    ) -> Host:
        result = function(list(data))
        return [result] if keepdims else result

    return compute


for _name, _reducer in {
    "ReduceProd": lambda values: _fold(operator.mul, (1, *values)),
    "ReduceSum": lambda values: _fold(operator.add, (0, *values)),
    "ReduceMax": lambda values: _fold(torch.sym_max, tuple(values)),
    "ReduceMin": lambda values: _fold(torch.sym_min, tuple(values)),
}.items():
    _rule(_name, _reduce_extent)(_reduction(_reducer))


def shape_of(data: Any, *, start: int = 0, end: int | None = None) -> list[Number]:
    """The operator Shape: sizes of axes start to end."""
    return list(data.shape)[slice(start, end)]


def count_of(data: Any) -> Number:
    """The operator Size: the number of elements."""
    return math.prod(data.shape)


def to_tensor(value: Host, dtype: torch.dtype, anchor: torch.Tensor) -> torch.Tensor:
    """A host value as a tensor beside `anchor`."""
    full: Any = torch.full  # its stubs do not know symbolic numbers
    symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
    if isinstance(value, (list, tuple)) and any(isinstance(part, symbolic) for part in value):
        return torch.stack([full((), part, dtype=dtype, device=anchor.device) for part in value])
    if isinstance(value, symbolic):
        result: torch.Tensor = full((), value, dtype=dtype, device=anchor.device)
        return result
    return torch.tensor(value, dtype=dtype, device=anchor.device)


def to_list(tensor: torch.Tensor) -> Host:
    """The values of a tensor on the host: waits for the device. While tracing they are sizes that depend on data."""
    if isinstance(tensor, (list, tuple, int, float)):
        return tensor
    if tensor.device.type == "meta" or not torch.compiler.is_compiling():
        return tensor.tolist()
    if tensor.dim() == 0:
        return tensor.item()
    return [part.item() for part in tensor.unbind()]
