"""Index expressions (sympy) as OpenCL C. They are integers; sizes come as `long` arguments."""

from typing import Any

import sympy
from torch.utils._sympy.printers import ExprPrinter


class OclPrinter(ExprPrinter):  # torch has no types here
    """Numbers of an index, evaluated by one work-item."""

    def _long(self, expression: sympy.Expr) -> str:
        return f"(long)({self._print(expression)})"

    def _double(self, expression: sympy.Expr) -> str:
        return f"(double)({self._print(expression)})"

    def _print_Integer(self, expression: sympy.Expr) -> str:
        number = int(expression)
        text = f"{number}L" if abs(number) >= 2**31 else str(number)
        return text if number >= 0 else f"({text})"

    _print_One = _print_Zero = _print_NegativeOne = _print_Integer

    def _print_FloorDiv(self, expression: sympy.Expr) -> str:
        value, divisor = expression.args
        if value.is_nonnegative and divisor.is_positive:
            return f"(({self._print(value)}) / ({self._print(divisor)}))"
        return f"FLOOR_DIVIDE({self._long(value)}, {self._long(divisor)})"

    def _print_ModularIndexing(self, expression: sympy.Expr) -> str:
        value, divisor, modulus = expression.args
        text = f"({self._print(value)})"
        if divisor != 1:
            text = f"({text} / ({self._print(divisor)}))"
        return f"({text} % ({self._print(modulus)}))"

    def _print_PythonMod(self, expression: sympy.Expr) -> str:
        value, divisor = expression.args
        if value.is_nonnegative and divisor.is_positive:
            return f"(({self._print(value)}) % ({self._print(divisor)}))"
        return f"REMAINDER({self._long(value)}, {self._long(divisor)})"

    _print_Mod = _print_PythonMod

    def _fold(self, expression: sympy.Expr, function: str) -> str:
        text = self._long(expression.args[0])
        for argument in expression.args[1:]:
            text = f"{function}({text}, {self._long(argument)})"
        return text

    def _print_Min(self, expression: sympy.Expr) -> str:
        return self._fold(expression, "min")

    def _print_Max(self, expression: sympy.Expr) -> str:
        return self._fold(expression, "max")

    def _print_Abs(self, expression: sympy.Expr) -> str:
        return f"ABSOLUTE({self._long(expression.args[0])})"

    def _print_Where(self, expression: sympy.Expr) -> str:
        condition, first, second = (self._print(argument) for argument in expression.args)
        return f"(({condition}) ? (long)({first}) : (long)({second}))"

    def _print_PowByNatural(self, expression: sympy.Expr) -> str:
        base, exponent = expression.args
        return f"INTEGER_POWER({self._long(base)}, {self._long(exponent)})"

    def _print_LShift(self, expression: sympy.Expr) -> str:
        return "SHIFT_LEFT({}, {})".format(*(self._long(argument) for argument in expression.args))

    def _print_RShift(self, expression: sympy.Expr) -> str:
        return "SHIFT_RIGHT({}, {})".format(*(self._long(argument) for argument in expression.args))

    def _print_And(self, expression: sympy.Expr) -> str:
        return "(" + " && ".join(f"({self._print(argument)})" for argument in expression.args) + ")"

    def _print_Or(self, expression: sympy.Expr) -> str:
        return "(" + " || ".join(f"({self._print(argument)})" for argument in expression.args) + ")"

    def _print_Not(self, expression: sympy.Expr) -> str:
        return f"(!({self._print(expression.args[0])}))"

    def _print_Equality(self, expression: sympy.Expr) -> str:
        return "(({}) == ({}))".format(*(self._print(argument) for argument in expression.args))

    def _print_Unequality(self, expression: sympy.Expr) -> str:
        return "(({}) != ({}))".format(*(self._print(argument) for argument in expression.args))

    def _print_BooleanTrue(self, expression: Any) -> str:
        return "1"

    def _print_BooleanFalse(self, expression: Any) -> str:
        return "0"

    # Scale factors of interpolation and the like are floating.
    def _print_ToFloat(self, expression: sympy.Expr) -> str:
        return f"({self._double(expression.args[0])})"

    _print_TruncToFloat = _print_ToFloat

    def _print_Float(self, expression: sympy.Expr) -> str:
        return repr(float(expression))

    def _print_IntTrueDiv(self, expression: sympy.Expr) -> str:
        return "({} / {})".format(*(self._double(argument) for argument in expression.args))

    _print_FloatTrueDiv = _print_IntTrueDiv

    def _print_FloatPow(self, expression: sympy.Expr) -> str:
        return "pow({}, {})".format(*(self._double(argument) for argument in expression.args))

    def _print_OpaqueUnaryFn_sqrt(self, expression: sympy.Expr) -> str:
        return f"sqrt({self._double(expression.args[0])})"

    def _round(self, expression: sympy.Expr, function: str) -> str:
        return f"((long){function}({self._double(expression.args[0])}))"

    def _print_RoundToInt(self, expression: sympy.Expr) -> str:
        return self._round(expression, "rint")

    def _print_RoundDecimal(self, expression: sympy.Expr) -> str:
        value, digits = expression.args
        scale = f"pow(10.0, {self._double(digits)})"
        return f"(rint({self._double(value)} * {scale}) / {scale})"

    def _print_FloorToInt(self, expression: sympy.Expr) -> str:
        return self._round(expression, "floor")

    _print_floor = _print_FloorToInt

    def _print_CeilToInt(self, expression: sympy.Expr) -> str:
        return self._round(expression, "ceil")

    _print_ceiling = _print_CeilToInt

    def _print_TruncToInt(self, expression: sympy.Expr) -> str:
        return self._round(expression, "trunc")

    def _print_Infinity(self, expression: sympy.Expr) -> str:
        return "LONG_MAX"

    def _print_IntInfinity(self, expression: sympy.Expr) -> str:
        return "LONG_MAX"

    def _print_NegativeInfinity(self, expression: sympy.Expr) -> str:
        return "LONG_MIN"

    def _print_NegativeIntInfinity(self, expression: sympy.Expr) -> str:
        return "LONG_MIN"


printer = OclPrinter()
