"""Inductor's operations as OpenCL C.

Every operation makes its variable itself and says its type: Inductor's own rules of types are made for Triton, and
OpenCL C converts no vectors by itself.
"""

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.virtualized import OpsValue, V, ops

from . import dtypes
from .functions import FUNCTIONS

Argument = Any  # a CSEVariable, an OpsValue around one, or a Python number


def _plain(value: Argument) -> Argument:
    return value.value if isinstance(value, OpsValue) else value


def emit(text: str, dtype: torch.dtype) -> CSEVariable:
    """A variable with this value."""
    return V.kernel.cse.generate(V.kernel.compute, text, dtype=dtype, shape=())


def common_type(*values: Argument) -> torch.dtype:
    """PyTorch's promotion; Python's numbers only raise the kind of type (bool, integer, floating)."""
    result: torch.dtype | None = None
    plain = [_plain(value) for value in values]
    for value in plain:
        if isinstance(value, CSEVariable):
            result = value.dtype if result is None else torch.promote_types(result, value.dtype)
    for value in plain:
        if isinstance(value, CSEVariable):
            continue
        kind = torch.bool if isinstance(value, bool) else torch.float32 if isinstance(value, float) else torch.int64
        if (
            result is None
            or (result is torch.bool and kind is not torch.bool)
            or (kind.is_floating_point and not result.is_floating_point)
        ):
            result = kind
    assert result is not None
    return result


def as_type(value: Argument, dtype: torch.dtype) -> str:
    """The text of a value, converted."""
    value = _plain(value)
    width = V.kernel.width
    if isinstance(value, CSEVariable):
        return dtypes.convert(str(value), value.dtype, dtype, width)
    return dtypes.literal(value, dtype, width)


def floating_type(*values: Argument) -> torch.dtype:
    dtype = common_type(*values)
    return dtype if dtype.is_floating_point else torch.float32


def call(name: str, *values: Argument, dtype: torch.dtype | None = None) -> CSEVariable:
    """A function of FUNCTIONS."""
    dtype = dtype or floating_type(*values)
    row = FUNCTIONS[name]
    use_builtin = dtype is torch.float64 and row.double is not None
    if not use_builtin:
        V.kernel.needs_functions(dtype, row.includes)
    template = row.double if use_builtin and row.double else row.single
    return emit(template.format(*(as_type(value, dtype) for value in values)), dtype)


def compare(operator: str) -> Callable[[Argument, Argument], CSEVariable]:
    def compare_(a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        dtype = torch.int32 if dtype is torch.bool else dtype  # lanes of a mask are 0 and -1: in another order
        return emit(f"MASK({as_type(a, dtype)} {operator} {as_type(b, dtype)})", torch.bool)

    return compare_


def arithmetic(operator: str, of_bools: str) -> Callable[[Argument, Argument], CSEVariable]:
    def arithmetic_(a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        sign = of_bools if dtype is torch.bool else operator
        text = f"({as_type(a, dtype)} {sign} {as_type(b, dtype)})"
        if V.kernel.width == 1 and dtype in (torch.int8, torch.int16, torch.uint8, torch.uint16):
            text = f"(({dtypes.C_TYPES[dtype]}){text})"
        return emit(text, dtype)

    return arithmetic_


def of_integers(function: str) -> Callable[[Argument, Argument], CSEVariable]:
    def of_integers_(a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        dtype = torch.int64 if dtype is torch.bool else dtype
        return emit(f"{function}({as_type(a, dtype)}, {as_type(b, dtype)})", dtype)

    return of_integers_


def by_kind(integers: str, name: str) -> Callable[[Argument, Argument], CSEVariable]:
    """`integers` is a function of kernels_cl/inductor/integers.clh, `name` a row of FUNCTIONS."""

    def by_kind_(a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        return call(name, a, b, dtype=dtype) if dtype.is_floating_point else of_integers(integers)(a, b)

    return by_kind_


def logical(operator: str) -> Callable[[Argument, Argument], CSEVariable]:
    def logical_(a: Argument, b: Argument) -> CSEVariable:
        return emit(f"({as_type(a, torch.bool)} {operator} {as_type(b, torch.bool)})", torch.bool)

    return logical_


class OclOverrides(OpOverrides):
    """What Inductor calls while a kernel is written."""

    eq, ne = staticmethod(compare("==")), staticmethod(compare("!="))
    lt, le = staticmethod(compare("<")), staticmethod(compare("<="))
    gt, ge = staticmethod(compare(">")), staticmethod(compare(">="))
    add, sub = staticmethod(arithmetic("+", "|")), staticmethod(arithmetic("-", "^"))
    mul = staticmethod(arithmetic("*", "&"))
    bitwise_and, bitwise_or = staticmethod(arithmetic("&", "&")), staticmethod(arithmetic("|", "|"))
    bitwise_xor = staticmethod(arithmetic("^", "^"))
    bitwise_left_shift = staticmethod(of_integers("SHIFT_LEFT"))
    bitwise_right_shift = staticmethod(of_integers("SHIFT_RIGHT"))
    logical_and, logical_or, logical_xor = (staticmethod(logical(sign)) for sign in "&|^")
    floordiv = staticmethod(by_kind("FLOOR_DIVIDE", "floor_divide"))
    mod = fmod = staticmethod(by_kind("TRUNC_MODULO", "fmod"))
    remainder = staticmethod(by_kind("REMAINDER", "remainder"))
    pow = staticmethod(by_kind("INTEGER_POWER", "pow"))

    # ---- constants, indices, conversions
    @staticmethod
    def constant(value: float, dtype: torch.dtype) -> CSEVariable:
        dtype = dtypes.computation_type(dtype)
        return emit(dtypes.literal(value, dtype, V.kernel.width), dtype)

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        return V.kernel.index_value(expr, dtypes.computation_type(dtype))

    value_expr = index_expr

    @staticmethod
    def to_dtype(
        x: Argument, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> CSEVariable:
        if not use_compute_types and dtype in (torch.float16, torch.bfloat16):
            rounded = dtypes.round_to(as_type(x, torch.float32), dtype, V.kernel.width)
            return emit(rounded, torch.float32)
        target = dtypes.computation_type(dtype)
        return emit(as_type(x, target), target)

    @staticmethod
    def to_dtype_bitcast(x: Argument, dtype: torch.dtype, src_dtype: torch.dtype) -> CSEVariable:
        halves = {torch.float16: "half", torch.bfloat16: "bfloat16"}
        width = V.kernel.width
        text = as_type(x, dtypes.computation_type(src_dtype))
        if src_dtype in halves:
            text = f"float_to_{halves[src_dtype]}{width}({text})"
        if dtype in halves:
            return emit(f"{halves[dtype]}_to_float{width}(as_{dtypes.c_type(torch.uint16, width)}({text}))",
                        torch.float32)  # fmt: skip
        return emit(f"as_{dtypes.c_type(dtype, width)}({text})", dtypes.computation_type(dtype))

    @staticmethod
    def round_to_int(x: Argument, dtype: torch.dtype) -> CSEVariable:
        return OclOverrides.to_dtype(call("round", x), dtype)

    @staticmethod
    def floor_to_int(x: Argument, dtype: torch.dtype) -> CSEVariable:
        return OclOverrides.to_dtype(call("floor", x), dtype)

    @staticmethod
    def ceil_to_int(x: Argument, dtype: torch.dtype) -> CSEVariable:
        return OclOverrides.to_dtype(call("ceil", x), dtype)

    @staticmethod
    def trunc_to_int(x: Argument, dtype: torch.dtype) -> CSEVariable:
        return OclOverrides.to_dtype(call("trunc", x), dtype)

    # ---- choice
    @staticmethod
    def where(condition: Argument, a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        return emit(f"PICK({as_type(condition, torch.bool)}, {as_type(a, dtype)}, {as_type(b, dtype)})", dtype)

    @staticmethod
    def masked(mask: Argument, body: Callable[[], Any], other: float) -> CSEVariable:
        with V.kernel.mask_loads(mask, other) as both:
            result = _plain(body())
        return OclOverrides.where(both, result, OclOverrides._as_constant(other, result.dtype))

    @staticmethod
    def _as_constant(value: float, dtype: torch.dtype) -> CSEVariable:
        return emit(dtypes.literal(value, dtype, V.kernel.width), dtype)

    @staticmethod
    def maximum(a: Argument, b: Argument) -> CSEVariable:
        return _extreme("MAXIMUM", "max", "|", a, b)

    @staticmethod
    def minimum(a: Argument, b: Argument) -> CSEVariable:
        return _extreme("MINIMUM", "min", "&", a, b)

    # ---- bits and signs
    @staticmethod
    def bitwise_not(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        text = f"({as_type(x, dtype)} == 0)" if dtype is torch.bool else f"(~{as_type(x, dtype)})"
        return emit(
            f"MASK{text}" if dtype is torch.bool else f"(({dtypes.c_type(dtype, V.kernel.width)}){text})", dtype
        )

    @staticmethod
    def logical_not(x: Argument) -> CSEVariable:
        return OclOverrides.bitwise_not(emit(as_type(x, torch.bool), torch.bool))

    @staticmethod
    def neg(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        text = as_type(x, dtype)
        zero = dtypes.literal(0, dtype, V.kernel.width)
        difference = f"(({dtypes.c_type(dtype, V.kernel.width)})({zero} - {text}))"
        return emit(f"(-{text})" if dtype.is_floating_point else difference, dtype)

    @staticmethod
    def abs(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        if dtype is torch.bool:
            return emit(as_type(x, dtype), dtype)
        return emit(f"{'fabs' if dtype.is_floating_point else 'ABSOLUTE'}({as_type(x, dtype)})", dtype)

    @staticmethod
    def sign(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        if dtype is torch.bool:
            return emit(as_type(x, dtype), dtype)
        value = as_type(x, dtype)
        zero, one = (dtypes.literal(number, dtype, V.kernel.width) for number in (0, 1))
        less = zero if not dtype.is_signed else dtypes.literal(-1, dtype, V.kernel.width)
        return emit(f"({value} > {zero} ? {one} : {value} < {zero} ? {less} : {zero})", dtype)

    @staticmethod
    def signbit(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        if not dtype.is_floating_point:
            return OclOverrides.lt(x, 0)
        bits = torch.int32 if dtype is torch.float32 else torch.int64
        return emit(f"MASK(as_{dtypes.c_type(bits, V.kernel.width)}({as_type(x, dtype)}) < 0)", torch.bool)

    @staticmethod
    def isnan(x: Argument) -> CSEVariable:
        value = as_type(x, dtype := common_type(x))
        return emit(f"MASK({value} != {value})" if dtype.is_floating_point else OclOverrides._never(), torch.bool)

    @staticmethod
    def isinf(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        infinity = dtypes.literal(float("inf"), dtype, V.kernel.width) if dtype.is_floating_point else ""
        text = f"MASK(fabs({as_type(x, dtype)}) == {infinity})" if infinity else OclOverrides._never()
        return emit(text, torch.bool)

    @staticmethod
    def _never() -> str:
        return dtypes.literal(False, torch.bool, V.kernel.width)

    # ---- arithmetic
    @staticmethod
    def truediv(a: Argument, b: Argument) -> CSEVariable:
        dtype = floating_type(a, b)
        return emit(f"({as_type(a, dtype)} / {as_type(b, dtype)})", dtype)

    int_truediv = div_rn = truediv

    @staticmethod
    def mul_rn(a: Argument, b: Argument) -> CSEVariable:
        return OclOverrides.mul(a, b)

    @staticmethod
    def truncdiv(a: Argument, b: Argument) -> CSEVariable:
        dtype = common_type(a, b)
        if dtype.is_floating_point:
            return call("trunc", OclOverrides.truediv(a, b))
        return of_integers("TRUNC_DIVIDE")(a, b)

    @staticmethod
    def square(x: Argument) -> CSEVariable:
        return OclOverrides.mul(x, x)

    @staticmethod
    def relu(x: Argument) -> CSEVariable:
        return OclOverrides.maximum(x, 0)

    @staticmethod
    def polygamma(n: Argument, x: Argument) -> CSEVariable:
        """(-1)^(n + 1) n! zeta(n + 1, x); of n = 0 the digamma function."""
        order = OclOverrides.add(emit(as_type(n, dtype := floating_type(x)), dtype), 1.0)
        factorial = call("exp", call("lgamma", order))
        factorial = OclOverrides.where(OclOverrides.lt(order, 11.0), call("round", factorial), factorial)
        size = OclOverrides.mul(factorial, call("special_zeta", order, x))
        is_even = OclOverrides.eq(call("fmod", order, 2.0), 0.0)
        value = OclOverrides.where(is_even, size, OclOverrides.neg(size))
        return OclOverrides.where(OclOverrides.eq(order, 1.0), call("digamma", x), value)

    @staticmethod
    def frexp(x: Argument) -> tuple[CSEVariable, CSEVariable]:
        V.kernel.needs_functions(dtype := floating_type(x), ())
        value = as_type(x, dtype)
        exponent = emit(f"frexp_exponent_of({value})", dtype)
        return emit(f"frexp_mantissa_of({value})", dtype), emit(as_type(exponent, torch.int32), torch.int32)

    @staticmethod
    def ldexp(x: Argument, n: Argument) -> CSEVariable:
        """x * 2^n, in two steps as eager operators compute it: 2^n may overflow where the result would not."""
        power = call("exp2", emit(as_type(n, dtype := floating_type(x)), dtype))
        return OclOverrides.mul(x, power)

    # ---- random numbers
    @staticmethod
    def load_seed(name: str, offset: int) -> Any:
        return ops.load(name, sympy.Integer(offset))

    @staticmethod
    def _random(function: str, *values: Argument) -> str:
        V.kernel.includes["inductor/random.clh"] = None
        unsigned = dtypes.c_type(torch.uint64, V.kernel.width)
        return f"{function}({', '.join(f'as_{unsigned}({as_type(value, torch.int64)})' for value in values)})"

    @staticmethod
    def rand(seed: Argument, offset: Argument) -> CSEVariable:
        return emit(OclOverrides._random("random_uniform", seed, offset), torch.float32)

    @staticmethod
    def randn(seed: Argument, offset: Argument) -> CSEVariable:
        return emit(OclOverrides._random("random_normal", seed, offset), torch.float32)

    @staticmethod
    def randint64(seed: Argument, offset: Argument, low: Argument, high: Argument) -> CSEVariable:
        text = OclOverrides._random("random_integer", seed, offset, low, high)
        return emit(f"as_{dtypes.c_type(torch.int64, V.kernel.width)}({text})", torch.int64)


def _extreme(of_floats: str, of_integers: str, of_bools: str, a: Argument, b: Argument) -> CSEVariable:
    dtype = common_type(a, b)
    first, second = as_type(a, dtype), as_type(b, dtype)
    if dtype.is_floating_point:  # through variables: the macros name their arguments several times
        return emit(f"{of_floats}({emit(first, dtype)}, {emit(second, dtype)})", dtype)
    return emit(f"({first} {of_bools} {second})" if dtype is torch.bool else f"{of_integers}({first}, {second})", dtype)


def _function(name: str) -> Callable[..., CSEVariable]:
    def function(*values: Argument) -> CSEVariable:
        return call(name, *values)

    function.__name__ = name
    return function


def _whole(name: str) -> Callable[[Argument], CSEVariable]:
    """floor and the like leave integers as they are."""

    def whole(x: Argument) -> CSEVariable:
        dtype = common_type(x)
        return call(name, x) if dtype.is_floating_point else emit(as_type(x, dtype), dtype)

    whole.__name__ = name
    return whole


for _name in FUNCTIONS:
    if _name in ("floor", "ceil", "trunc", "round"):
        setattr(OclOverrides, _name, staticmethod(_whole(_name)))
        continue
    for _spelling in (_name, _name.removeprefix("special_")):
        if _spelling not in vars(OclOverrides):
            setattr(OclOverrides, _spelling, staticmethod(_function(_name)))
