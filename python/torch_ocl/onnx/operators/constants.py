"""Tensors made from nothing, or from a shape."""

from typing import Any

import numpy
import torch
from torch import Tensor

from .. import types
from ..registry import row


@row("Constant")
def constant(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    value_string: str | None = None,
    value_strings: Any = None,
) -> Any:
    """The attribute that is given."""
    for tensor in (value, sparse_value):
        if tensor is not None:
            return tensor
    for number, dtype in (
        (value_float, torch.float32),
        (value_floats, torch.float32),
        (value_int, torch.int64),
        (value_ints, torch.int64),
    ):
        if number is not None:
            return torch.tensor(number, dtype=dtype)
    text = value_string if value_strings is None else value_strings
    if text is None:
        raise ValueError("it has no value")
    return numpy.array(text, dtype=object)


@row("ConstantOfShape", 9, host=(0,))
def constant_of_shape(sizes: Any, *, value: Any = None, anchor: Tensor) -> Tensor:
    """A tensor of one value."""
    if value is None:
        return torch.zeros(list(sizes), dtype=torch.float32, device=anchor.device)
    if value.numel() != 1:
        raise ValueError(f"its value has the shape {list(value.shape)}, expected one element")
    if value.dtype in types.FLOAT8 or value.device.type == "meta":
        return value.reshape([1] * len(sizes)).expand(list(sizes)).clone()
    return value.reshape([1] * len(sizes)).expand(list(sizes)).contiguous() if len(sizes) else value.reshape(())


@row("EyeLike", 9)
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    kind = x.dtype if dtype is None else types.dtype_of(dtype)
    rows, columns = x.shape
    place = torch.arange(rows, device=x.device).reshape(-1, 1) + k
    return (place == torch.arange(columns, device=x.device)).to(kind)


@row("Range", 11, host=(0, 1, 2))
def range_(start: Any, limit: Any, delta: Any, *, anchor: Tensor, types: Any = ()) -> Tensor:
    """start, start + delta, ... before limit."""
    from ..types import dtype_of

    start, limit, delta = (value[0] if isinstance(value, (list, tuple)) else value for value in (start, limit, delta))
    dtype = dtype_of(types[0]) if types and types[0] else (torch.float32 if isinstance(start, float) else torch.int64)
    if isinstance(delta, (int, float)) and delta == 0:
        raise ValueError("delta is 0")
    if all(isinstance(value, (int, float)) for value in (start, limit, delta)) and (limit - start) * delta <= 0:
        return torch.empty(0, dtype=dtype, device=anchor.device)
    return torch.arange(start, limit, delta, dtype=dtype, device=anchor.device)
