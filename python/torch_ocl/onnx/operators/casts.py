"""Casts, also to float8, 4-bit and 2-bit types and to and from text."""

import functools
import math
from typing import Any

import numpy
import torch
from torch import Tensor

from .. import types
from ..registry import row

# float8 formats: exponent bits, mantissa bits, bias of the exponent, largest finite value, code of infinity (None:
# there is none), code of NaN, whether a negative zero exists.
_FORMATS: dict[torch.dtype, tuple[int, int, int, float, int | None, int, bool]] = {
    torch.float8_e4m3fn: (4, 3, 7, 448.0, None, 0x7F, True),
    torch.float8_e4m3fnuz: (4, 3, 8, 240.0, None, 0x80, False),
    torch.float8_e5m2: (5, 2, 15, 57344.0, 0x7C, 0x7E, True),
    torch.float8_e5m2fnuz: (5, 2, 16, 57344.0, None, 0x80, False),
}


@functools.lru_cache(maxsize=64)
def _decoded(dtype: torch.dtype, device: torch.device) -> Tensor:
    codes = numpy.arange(256, dtype=numpy.uint8).view(types.numpy_type(types.element_of(dtype)))
    return torch.from_numpy(codes.astype(numpy.float32)).to(device)


def from_float8(x: Tensor) -> Tensor:
    """The values of a float8 tensor as float32, by a table of the 256 codes."""
    if x.device.type == "cpu":
        return x.to(torch.float32)
    return _decoded(x.dtype, x.device)[x.view(torch.uint8).to(torch.int64)]


def to_float8(x: Tensor, dtype: torch.dtype, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """x rounded to a float8 type, half to even. Values beyond the largest become it (saturate) or NaN or infinity."""
    x = x.to(torch.float32)
    if dtype == torch.float8_e8m0fnu:
        return _to_e8m0(x, saturate, round_mode).view(dtype)
    _, mantissa, bias, largest, infinity, nan, signed_zero = _FORMATS[dtype]
    size = x.abs()
    # The exponent of x from its bits; below the smallest normal number the step stays the same.
    exponent = (size.view(torch.int32) >> 23) - 127
    exponent = exponent.clamp(min=1 - bias)
    steps = torch.round(torch.ldexp(size, mantissa - exponent))  # 2^mantissa <= steps <= 2^(mantissa+1), or a subnormal
    code = steps.to(torch.int32) + ((exponent + bias - 1) << mantissa)
    value = torch.ldexp(steps, exponent - mantissa)
    over = value > largest
    top = torch.tensor(largest, dtype=torch.float32)
    highest = int((top.view(torch.int32) >> 23).item()) - 127 + bias << mantissa | _mantissa_of(largest, mantissa)
    infinite = size == math.inf
    if saturate:
        beyond = torch.full_like(code, highest)
    else:
        beyond = torch.full_like(code, nan if infinity is None else infinity)
    code = torch.where(over | infinite, beyond, code)
    negative = (x.view(torch.int32) < 0).to(torch.int32) << 7
    if signed_zero:
        code = code | negative
    else:
        code = torch.where((code == 0) | (code == nan), code, code | negative)
    code = torch.where(torch.isnan(x), torch.full_like(code, nan) | (negative if signed_zero else 0), code)
    return code.to(torch.uint8).view(dtype)


def _mantissa_of(value: float, bits: int) -> int:
    fraction, _ = math.frexp(value)
    return int((fraction * 2 - 1) * 2**bits)


def _to_e8m0(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """Codes of powers of two, rounded up, down or to the nearest."""
    bits = x.abs().view(torch.int32)
    code, rest = bits >> 23, bits & 0x7FFFFF
    if round_mode == "up":
        code = code + (rest > 0)
    elif round_mode == "nearest":
        code = code + (rest >= 0x400000)
    elif round_mode != "down":
        raise ValueError(f"round_mode is '{round_mode}', expected up, down or nearest")
    over = code > 254
    code = torch.where(over & ~torch.isnan(x), torch.full_like(code, 254 if saturate else 255), code)
    if not saturate:
        code = torch.where((bits == 0), torch.full_like(code, 255), code)
    code = torch.where(torch.isnan(x), torch.full_like(code, 255), code)
    return code.to(torch.uint8)


_FLOAT4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def to_float4(x: Tensor) -> Tensor:
    """x rounded to the values of float4e2m1, half to even, as float32."""
    size = x.float().abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    value = (torch.round(size / step) * step).clamp(max=6.0)
    value = torch.where(torch.isnan(size), torch.full_like(value, -0.0), value)
    return torch.where(torch.isnan(size), value, torch.copysign(value, x.float()))


def to_small_integer(x: Tensor, element: int) -> Tensor:
    """x as a 4-bit or 2-bit integer: the fraction is cut, the value wraps as its low bits."""
    low, high = types.INTEGER_RANGES[element]
    whole = x.to(torch.int32) if x.dtype != torch.bool else x.to(torch.uint8).to(torch.int32)
    whole = whole & (high - low)
    if low < 0:
        whole = torch.where(whole > high, whole - (high - low + 1), whole)
    return whole.to(types.dtype_of(element))


def convert(x: Any, to: int, source: int = 0, saturate: int = 1, round_mode: str = "up") -> Any:
    """x as a value of ONNX's type `to`."""
    if isinstance(x, numpy.ndarray):
        return _from_text(x, to)
    if to == types.STRING:
        return _to_text(x, source)
    if x.dtype in types.FLOAT8:
        x = from_float8(x)
    dtype = types.dtype_of(to)
    if dtype in types.FLOAT8:
        return to_float8(x, dtype, bool(saturate), round_mode)
    if to == types.FLOAT4E2M1:
        return to_float4(x)
    if to in (types.UINT4, types.INT4, types.UINT2, types.INT2):
        return to_small_integer(x, to)
    if (
        x.is_floating_point()
        and not dtype.is_floating_point
        and dtype not in (torch.bool, torch.int64)
        and not dtype.is_complex
    ):
        return x.to(torch.int64).to(dtype)  # wraps the same way on all devices
    return x.to(dtype)


def _from_text(x: Any, to: int) -> Any:
    if to == types.STRING:
        return x
    kind = numpy.float64 if types.dtype_of(to).is_floating_point else numpy.int64
    numbers = numpy.array([_parse(str(text), kind) for text in x.reshape(-1)], dtype=kind).reshape(x.shape)
    return convert(torch.from_numpy(numbers), to)


def _parse(text: str, kind: Any) -> Any:
    return kind(float(text)) if kind is numpy.float64 else kind(int(float(text))) if "." in text else kind(text)


def _to_text(x: Tensor, source: int) -> Any:
    array = types.to_numpy(x, source)
    if array.dtype.kind == "b":
        values = [str(int(value)) for value in array.reshape(-1)]
    elif array.dtype.kind == "f" or array.dtype.kind == "V":
        values = [_float_text(value) for value in array.reshape(-1)]
    else:
        values = [str(value) for value in array.reshape(-1)]
    return numpy.array(values, dtype=object).reshape(array.shape)


def _float_text(value: Any) -> str:
    if numpy.isinf(value):
        return "INF" if value > 0 else "-INF"
    return "NaN" if numpy.isnan(value) else str(value)


@row("Cast", 6)
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up", types: Any = ()) -> Any:
    """x as another type."""
    return convert(x, to, types[0] if types else 0, saturate, round_mode)


@row("Cast", 1)
def cast_by_name(x: Any, *, to: str) -> Any:
    """Cast of opset 1, where the type has a name."""
    from onnx import TensorProto

    return convert(x, TensorProto.DataType.Value(to))


@row("CastLike", 15)
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", types: Any = ()) -> Any:
    """x as the type of `like`."""
    from ..types import STRING, element_of

    to = types[1] or (STRING if isinstance(like, numpy.ndarray) else element_of(like.dtype))
    return convert(x, to, types[0], saturate, round_mode)
