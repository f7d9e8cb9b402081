"""PyTorch's dtypes as OpenCL C: names of types, literals, conversions.

A value in generated code has a *computation type* (float32 for the half types) and `width` lanes: 16 on CPU devices, 1
elsewhere. A bool is a mask (kernels_cl/inductor/lanes.clh).
"""

import math

import torch

# Computation type: element type of values, and the name that kernels_cl/common/types.clh has for it.
C_TYPES = {
    torch.bool: "int",
    torch.int8: "char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
    torch.uint8: "uchar",
    torch.uint16: "ushort",
    torch.uint32: "uint",
    torch.uint64: "ulong",
    torch.float32: "float",
    torch.float64: "double",
}
STORAGE = {**C_TYPES, torch.bool: "uchar", torch.float16: "ushort", torch.bfloat16: "ushort"}
NAMES = {
    torch.bool: "uint8",
    **{dtype: str(dtype).removeprefix("torch.") for dtype in STORAGE if dtype is not torch.bool},
}
# Letters of csrc/torch/python/generated_kernel.cpp for the value of a CPU tensor with one element.
LETTERS = {torch.float32: "F", torch.float64: "D", torch.int64: "Q"}
GREATEST_FLOAT = 3.4028234663852886e38


def is_floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def computation_type(dtype: torch.dtype) -> torch.dtype:
    """The type in which elements of `dtype` are worked on. Raises NotImplementedError for types without kernels."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    if dtype not in C_TYPES:
        raise NotImplementedError(f"generated kernels do not compute on {dtype}")
    return dtype


def c_type(dtype: torch.dtype, width: int) -> str:
    """The type of a value: "float16" is a vector of 16 floats."""
    return f"{C_TYPES[dtype]}{width if width > 1 else ''}"


def scalar_literal(value: float, dtype: torch.dtype) -> str:
    """One element. A double's literal would make double arithmetic of the expression around it."""
    if is_floating(dtype):
        return _float_literal(float(value), dtype)
    if dtype is torch.bool:
        return "1" if value else "0"
    number = int(value)
    if dtype in (torch.int64, torch.uint64):
        if number == -(2**63):
            return "(-9223372036854775807L - 1L)"
        return f"{number}UL" if number >= 2**63 else f"{number}L" if number >= 0 else f"({number}L)"
    if number == -(2**31):
        return "(-2147483647 - 1)"
    return str(number) if number >= 0 else f"({number})"


def _float_literal(value: float, dtype: torch.dtype) -> str:
    kind = C_TYPES[dtype]
    if math.isnan(value):
        return f"(({kind})NAN)"
    if math.isinf(value) or (dtype is torch.float32 and abs(value) > GREATEST_FLOAT):
        return f"({'-' if value < 0 else ''}({kind})INFINITY)"
    text = f"{value!r}{'f' if dtype is torch.float32 else ''}"
    return f"({text})" if text.startswith("-") else text


def literal(value: float, dtype: torch.dtype, width: int) -> str:
    """A constant with `width` lanes."""
    if width == 1:
        return f"(({C_TYPES[dtype]}){scalar_literal(value, dtype)})"
    if dtype is torch.bool:
        return f"(({c_type(dtype, width)}){'-1' if value else '0'})"
    return f"(({c_type(dtype, width)}){scalar_literal(value, dtype)})"


def convert(text: str, source: torch.dtype, target: torch.dtype, width: int) -> str:
    """An expression of computation type `source` as one of `target`, with PyTorch's rules."""
    if source is target:
        return text
    if target is torch.bool:
        return f"MASK({text} != {literal(0, source, width)})"
    if source is torch.bool:
        # FROM_MASK of narrow types: the mask's lanes are ints
        number = f"FROM_MASK({text})"
        return number if target is torch.int32 else f"convert_{c_type(target, width)}({number})"
    if width == 1:
        return f"CONVERT({NAMES[target]}, {NAMES[source]}, {text})"
    return f"CONVERTV({NAMES[target]}, {NAMES[source]}, {width}, {text})"


def round_to(text: str, dtype: torch.dtype, width: int) -> str:
    """A float32 rounded to a half type and back."""
    name = {torch.float16: "half", torch.bfloat16: "bfloat16"}[dtype]
    return f"{name}_to_float{width}(float_to_{name}{width}({text}))"


def lowest(dtype: torch.dtype) -> float:
    return -math.inf if is_floating(dtype) else 0 if dtype is torch.bool else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> float:
    return math.inf if is_floating(dtype) else 1 if dtype is torch.bool else torch.iinfo(dtype).max
