"""Elementwise operators: unary, binary, ternary, in place, with numbers, conversions."""

import torch
from hypothesis import strategies as st

from .program import Program
from .views import DTYPES, FLOATING, broadcast_to, shapes, sources

UNARY = (
    "abs", "neg", "sign", "sgn", "square", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2",
    "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "floor",
    "ceil", "round", "trunc", "frac", "relu",
    "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "signbit", "deg2rad", "lgamma", "digamma", "logit",
    "nan_to_num", "angle", "positive",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "true_divide", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
    "fmod", "remainder",
    "floor_divide", "atan2", "hypot", "copysign", "nextafter", "heaviside", "xlogy", "logaddexp", "pow", "logical_and",
    "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm", "isclose",
)  # fmt: skip
INPLACE = (
    "add_",
    "mul_",
    "sub_",
    "copy_",
    "div_",
    "fmod_",
    "remainder_",
    "eq_",
    "pow_",
    "clamp_min_",
    "logical_and_",
    "bitwise_or_",
    "hypot_",
)
TERNARY = ("where", "addcmul", "addcdiv", "lerp", "clamp")
WITH_NUMBER = (
    "add",
    "mul",
    "sub",
    "div",
    "pow",
    "fmod",
    "remainder",
    "floor_divide",
    "clamp_min",
    "clamp_max",
    "eq",
    "lt",
    "bitwise_and",
    "fill_",
)
NUMBERS = (2, 3, 0.5, -1, True, 0, float("inf"), float("nan"))

# The smallest integer divided by -1 ends a process on the CPU; a factor of lcm overflows.
ORDINARY = (
    "div",
    "true_divide",
    "fmod",
    "remainder",
    "floor_divide",
    "gcd",
    "lcm",
    "pow",
    "bitwise_left_shift",
    "bitwise_right_shift",
)


def _function(name):
    return getattr(torch, name) if hasattr(torch, name) else lambda a, *others: getattr(a, name)(*others)


def _ordinary(name):
    return name.rstrip("_") in ORDINARY


def _partners(draw, source):
    """dtypes for a second operand: mostly the first one's, so that the number of programs to compile stays small."""
    return (source.dtype,) if draw(st.integers(0, 4)) else (torch.float32, torch.int64, torch.bool)


def _unary(draw):
    name = draw(st.sampled_from(UNARY))
    return Program(name, getattr(torch, name), [draw(sources())])


def _conversion(draw):
    dtype = draw(st.sampled_from(DTYPES))
    return Program(f"to({dtype})", lambda a: a.to(dtype), [draw(sources(ordinary=True))])


def _with_number(draw):
    name, number = draw(st.sampled_from(WITH_NUMBER)), draw(st.sampled_from(NUMBERS))
    writes = name == "fill_"
    return Program(
        f"{name}({number})",
        lambda a: getattr(a, name)(number),
        [draw(sources(writable=writes, ordinary=_ordinary(name)))],
        writes=writes,
    )


def _in_place(draw):
    name, shape = draw(st.sampled_from(INPLACE)), draw(shapes(limit=4000))
    target = draw(sources(shape=shape, ordinary=_ordinary(name)))
    # a conversion of NaN to integers is not defined
    partners = (target.dtype,) if name == "copy_" else _partners(draw, target)
    return Program(
        name, _function(name), [target, draw(broadcast_to(shape, partners, ordinary=_ordinary(name)))], writes=True
    )


def _binary(draw):
    name, shape = draw(st.sampled_from(BINARY)), draw(shapes(limit=4000))
    a = draw(broadcast_to(shape, ordinary=_ordinary(name)))
    return Program(name, _function(name), [a, draw(broadcast_to(shape, _partners(draw, a), ordinary=_ordinary(name)))])


def _ternary(draw):
    name, shape = draw(st.sampled_from(TERNARY)), draw(shapes(limit=4000))
    a = draw(broadcast_to(shape, FLOATING if name == "addcdiv" else DTYPES))
    others = [draw(broadcast_to(shape, _partners(draw, a))), draw(broadcast_to(shape, _partners(draw, a)))]
    if name == "where":
        return Program(name, torch.where, [draw(broadcast_to(shape, (torch.bool,))), a, others[0]])
    return Program(name, getattr(torch, name), [a, *others])


KINDS = (_unary, _unary, _binary, _binary, _binary, _in_place, _ternary, _with_number, _conversion)


@st.composite
def elementwise(draw):
    return draw(st.sampled_from(KINDS))(draw)
