"""Quantization: integers with a scale and a zero point. Products accumulate in int32."""

from typing import Any

import torch
from torch import Tensor

from .. import types
from ..registry import row
from .casts import from_float8, to_float4, to_float8
from .convolution import convolution, padded, resolve_pads


def _spread(parameter: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point per tensor, per slice of the axis or per block of it, so that it broadcasts to x."""
    if parameter.numel() == 1 and not block_size:
        return parameter.reshape(())
    if parameter.dim() == 1 and not block_size:
        shape = [1] * x.dim()
        shape[axis] = -1
        return parameter.reshape(shape)
    if not block_size:
        raise ValueError(f"a scale of the shape {list(parameter.shape)} needs a block_size")
    return parameter.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])


def _round_to(x: Tensor, zero_point: Any, element: int) -> Tensor:
    low, high = types.INTEGER_RANGES[element]
    return torch.clamp(torch.round(x) + zero_point, low, high).to(torch.int32).to(types.dtype_of(element))


@row("QuantizeLinear", 10)
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    types: Any = (),
) -> Tensor:
    """round(x / scale) + zero_point as integers, or x / scale as float8 or float4."""
    element = _element(zero_point, types[2] if len(types) > 2 else 0) or output_dtype or UINT8
    steps = _spread(scale, x, axis, block_size)
    if precision:
        x, steps = x.to(dtype_of(precision)), steps.to(dtype_of(precision))
    elif not x.is_floating_point() or x.dtype != steps.dtype:
        x, steps = x.to(torch.float32), steps.to(torch.float32)
    quotient = x / steps
    if element == FLOAT4E2M1:
        return to_float4(quotient)
    dtype = dtype_of(element)
    if dtype in FLOAT8:
        return to_float8(quotient, dtype, bool(saturate))
    offset: Any = 0
    if zero_point is not None:
        offset = _spread(zero_point.to(torch.int32), x, axis, block_size)
    return _round_to(quotient.to(torch.float32), offset, element)


UINT8, FLOAT4E2M1, FLOAT8 = types.UINT8, types.FLOAT4E2M1, types.FLOAT8
dtype_of = types.dtype_of
element_of = types.element_of


def _element(zero_point: Tensor | None, known: int) -> int:
    return 0 if zero_point is None else known or element_of(zero_point.dtype)


@row("DequantizeLinear", 10)
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """(x - zero_point) * scale, with the type of the scale."""
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    if x.dtype in FLOAT8:
        x, zero_point = from_float8(x), None
    value = x.to(torch.float32)
    if zero_point is not None:
        value = value - _spread(zero_point.to(torch.float32), x, axis, block_size)
    return (value * _spread(scale, x, axis, block_size).to(torch.float32)).to(dtype)


@row("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(x: Tensor) -> Any:
    """x as uint8 with the scale and zero point of its own range, which includes 0."""
    high, low = torch.clamp(x.amax(), min=0), torch.clamp(x.amin(), max=0)
    scale = torch.where(high == low, torch.ones_like(high), high - low) / 255
    zero_point = torch.round(torch.clamp(-low / scale, 0, 255))
    y = torch.clamp(torch.round(x / scale) + zero_point, 0, 255)
    return y.to(torch.int32).to(torch.uint8), scale, zero_point.to(torch.int32).to(torch.uint8)


def _centred(x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    """x minus its zero point as int32; a vector of zero points belongs to the axis."""
    wide = x.to(torch.int32)
    if zero_point is None:
        return wide
    return wide - _aligned(zero_point.to(torch.int32), wide, axis)


def _aligned(parameter: Tensor, x: Tensor, axis: int) -> Tensor:
    if parameter.dim() == 1 and parameter.numel() > 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        return parameter.reshape(shape)
    return parameter.reshape(()) if parameter.numel() == 1 else parameter


@row("MatMulInteger", 10)
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """The product of two integer matrices less their zero points, as int32."""
    return torch.matmul(_centred(a, a_zero, -2 if a.dim() > 1 else 0), _centred(b, b_zero, -1))


@row("QLinearMatMul", 10)
def quantized_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    *,
    types: Any = (),
) -> Tensor:
    """The product of two quantized matrices, quantized."""
    total = matmul_integer(a, b, a_zero, b_zero)
    scale = _aligned(a_scale.float(), total, -2) * _aligned(b_scale.float(), total, -1)
    result = total.to(torch.float32) * (scale / _aligned(y_scale.float(), total, -2))
    return _round_to(result, _aligned(y_zero.to(torch.int32), total, -2), types[7] or element_of(y_zero.dtype))


def _convolved(x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None, options: dict[str, Any]) -> Tensor:
    """A convolution of integers, exact: sums below 2^24 fit float32, others are computed in float64 or int64."""
    x, w = _centred(x, x_zero, 1), _centred(w, w_zero, 0)
    axes = x.dim() - 2
    strides, dilations = options.get("strides") or [1] * axes, options.get("dilations") or [1] * axes
    pads = resolve_pads(
        x.shape[2:], list(w.shape[2:]), strides, dilations, options.get("pads"), options.get("auto_pad", "NOTSET")
    )
    x, equal = padded(x, pads)
    terms = w[0].numel()
    dtype = torch.float32 if isinstance(terms, int) and terms * 255 * 255 < 2**24 else torch.float64
    result = convolution(
        x.to(dtype), w.to(dtype), strides=strides, dilations=dilations, pads=equal * 2, group=options.get("group", 1)
    )
    return torch.round(result).to(torch.int32)


@row("ConvInteger", 10)
def convolution_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """A convolution of integers less their zero points, as int32."""
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return _convolved(x, w, x_zero, w_zero, options)


@row("QLinearConv", 10)
def quantized_convolution(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    types: Any = (),
) -> Tensor:
    """A quantized convolution; the bias is int32 with the scale of the products."""
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    total = _convolved(x, w, x_zero, w_zero, options)
    if b is not None:
        total = total + _aligned(b.to(torch.int32), total, 1)
    scale = x_scale.float().reshape(()) * _aligned(w_scale.float(), total, 1) / y_scale.float().reshape(())
    return _round_to(
        total.to(torch.float32) * scale, y_zero.to(torch.int32).reshape(()), types[7] or element_of(y_zero.dtype)
    )
