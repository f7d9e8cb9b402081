"""Arithmetic, comparison and logic with broadcasting."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor

from .. import types
from ..registry import add, row, widened

Operand = Any  # Tensor or number


for _name, _function in {
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}.items():
    add(_name, 1, _function, family="elementwise")

for _name, _function in {
    "Abs": widened(torch.abs),
    "Neg": widened(torch.neg),
    "Sign": widened(torch.sign),
    "BitwiseNot": widened(torch.bitwise_not),
}.items():
    add(_name, 1, _function, family="elementwise")

# PyTorch's functions stand in the graph by themselves where they are ONNX's: torch_ocl.optimize knows them.
for _name, _function in {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul}.items():
    add(_name, 7, _function, numbers=(0, 1), family="elementwise")

for _name, _function in {
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "BitwiseAnd": widened(torch.bitwise_and),
    "BitwiseOr": widened(torch.bitwise_or),
    "BitwiseXor": widened(torch.bitwise_xor),
}.items():
    add(_name, 7, _function, family="elementwise")


def _is_integer(*operands: Operand) -> bool:
    return not any(
        x.dtype.is_floating_point or x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, float)
        for x in operands
    )


@widened
def _divide(a: Operand, b: Operand) -> Tensor:
    if _is_integer(a, b):
        return torch.div(a, b, rounding_mode="trunc")
    return torch.div(a, b)


@row("Div", 7, numbers=(0, 1))
def divide(a: Operand, b: Operand) -> Tensor:
    """a / b; integers are rounded towards zero."""
    result: Tensor = _divide(a, b)
    return result


@row("Mod", 10, numbers=(0, 1))
def modulo(a: Operand, b: Operand, *, fmod: int = 0) -> Tensor:
    """The remainder with the sign of the divisor, or with fmod=1 of the dividend."""
    result: Tensor = widened(torch.fmod if fmod else torch.remainder)(a, b)
    return result


def _power(a: Operand, b: Operand) -> Tensor:
    result: Tensor
    if not isinstance(a, Tensor):
        a = torch.as_tensor(a, dtype=torch.float32 if isinstance(a, float) else torch.int64, device=b.device)
    if not _is_integer(b) and _is_integer(a):
        result = torch.pow(a.to(torch.float64 if a.dtype == torch.int64 else torch.float32), b)
        return result.to(a.dtype)
    result = widened(torch.pow)(a, b)
    return result.to(a.dtype) if result.dtype != a.dtype else result


@row("Pow", 7, numbers=(1,))
def power(a: Tensor, b: Operand) -> Tensor:
    """a to the power of b, with the type of a."""
    return _power(a, b)


def _comparison(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def compare(a: Operand, b: Operand) -> Any:
        if isinstance(a, numpy.ndarray) or isinstance(b, numpy.ndarray):
            return torch.from_numpy(numpy.asarray(a == b, dtype=bool))
        if isinstance(a, Tensor) and a.dtype == torch.uint64 and isinstance(b, Tensor) and a.device.type == "cpu":
            low = -(2**63)  # the order of unsigned numbers is that of signed ones with the first bit turned
            return function(a.view(torch.int64) ^ low, b.view(torch.int64) ^ low)
        return widened(function)(a, b)

    return compare


for _name, _function, _since in (
    ("Equal", torch.eq, 7),
    ("Greater", torch.gt, 7),
    ("Less", torch.lt, 7),
    ("GreaterOrEqual", torch.ge, 12),
    ("LessOrEqual", torch.le, 12),
):
    add(_name, _since, _comparison(_function), numbers=(1,), family="elementwise")


def aligned(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """b with axes of size 1 behind, so that its first axis is axis `axis` of a (broadcasting before opset 7)."""
    if axis is None:
        return b
    return b.reshape(tuple(b.shape) + (1,) * (a.dim() - b.dim() - axis % a.dim()))


def _old(function: Any) -> Callable[..., Tensor]:
    def compute(a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        if not broadcast and a.shape != b.shape:
            raise ValueError(f"shapes {list(a.shape)} and {list(b.shape)} differ and `broadcast` is 0")
        return function(a, aligned(a, b, axis))

    return compute


for _name, _function in {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": _divide,
    "Pow": _power,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "Less": torch.lt,
}.items():
    add(_name, 1, _old(_function), family="elementwise")


def _many(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def compute(*operands: Tensor) -> Tensor:
        if not operands:
            raise ValueError("it has no inputs")
        return functools.reduce(widened(function), operands)

    return compute


add("Max", 1, _many(torch.maximum), family="elementwise")
add("Min", 1, _many(torch.minimum), family="elementwise")
add("Sum", 1, _many(torch.add), family="elementwise")


@row("Mean")
def mean(*operands: Tensor) -> Tensor:
    """The elementwise mean of the inputs."""
    return functools.reduce(torch.add, operands) / len(operands)


@row("Where", 9)
def where(condition: Tensor, a: Tensor, b: Tensor) -> Any:
    """a where the condition holds, b elsewhere."""
    if isinstance(a, numpy.ndarray):
        return numpy.where(condition.cpu().numpy(), a, b)
    return torch.where(condition, a, b)


@row("BitShift", 11)
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """Bits of integers moved LEFT or RIGHT; signed ones keep their sign to the right."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction is '{direction}', expected LEFT or RIGHT")
    width, signed = 8 * a.element_size(), a.dtype.is_signed
    if direction == "RIGHT" and signed:
        return torch.bitwise_right_shift(a, b.clamp(max=width - 1))
    if a.dtype in types.WIDE_UNSIGNED and a.device.type == "cpu":
        wide, count = a.view(torch.int64) if width == 64 else a.to(torch.int64), b.to(torch.int64)
        if direction == "LEFT":
            shifted = wide << count
        else:  # zeros come in from the left
            shifted = (wide >> count) & torch.where(count > 0, (1 << (64 - count)) - 1, -1)
        shifted = torch.where(count >= width, 0, shifted)
        return shifted.view(torch.uint64) if width == 64 else shifted.to(a.dtype)
    shifted = torch.bitwise_left_shift(a, b) if direction == "LEFT" else torch.bitwise_right_shift(a, b)
    return torch.where(b >= width, torch.zeros_like(shifted), shifted)


@row("IsInf", 10)
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Where x is infinite, of the signs that are asked for."""
    if x.dtype in types.FLOAT8:
        x = x.float()
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_positive:
        return x == math.inf
    return x == -math.inf if detect_negative else torch.zeros_like(x, dtype=torch.bool)


def _bound(value: Any, x: Tensor) -> Any:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.reshape(())
    return value


@row("Clip", 11, numbers=(1, 2))
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """min(max(x, low), high): with low above high the result is high."""
    if low is None and high is None:
        return x
    low, high = _bound(low, x), _bound(high, x)
    if isinstance(low, Tensor) and low.dim() == 0 and isinstance(high, (int, float)):
        high = torch.full_like(low, high)
    if isinstance(high, Tensor) and isinstance(low, (int, float)):
        low = torch.full_like(high, low)
    result: Tensor = widened(torch.clamp)(x, low, high)
    return result


@row("Clip", 1)
def clip_by_attributes(x: Tensor, *, min: float = -math.inf, max: float = math.inf) -> Tensor:
    """Clip with its bounds as attributes."""
    return torch.clamp(x, min, max)


@row("Identity")
def identity(x: Any) -> Any:
    """x itself."""
    return x


@row("Einsum", 12)
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """The sum over products that the equation names."""
    return torch.einsum(equation.replace(" ", ""), *operands)


@row("BitCast", 26)
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    """The bits of x as another type of the same size."""
    return x.view(types.dtype_of(to))
