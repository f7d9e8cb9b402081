"""Reductions: what is kept while a kernel runs along r, and how parts of it are joined.

A reduction has one or more states. Each lane (CPU devices) or work-item (GPU devices) has its own; after the loop
they become one when r runs along the lanes or over the work-items of a group.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable

from . import dtypes
from .ops import as_type

# kind: combination as a macro of kernels_cl/inductor/lanes.clh, the fold over the lanes, neutral element
_SIMPLE = {
    "sum": ("SUM_OF", "FOLD_SUM", 0),
    "prod": ("PRODUCT_OF", "FOLD_PRODUCT", 1),
    "xor_sum": ("XOR_OF", "FOLD_XOR", 0),
    "any": ("OR_OF", "FOLD_OR", 0),
    "max": ("LARGER", "FOLD_LARGER", None),
    "min": ("SMALLER", "FOLD_SMALLER", None),
}

# An addition waits for the one before it, longer than a load takes: neighbouring vectors of long rows are added to
# states of their own. More reductions in one loop than this wait for each other little.
PARTS, MOST_IN_PARTS, LEAST_IN_PARTS = 4, 2, 512


@dataclasses.dataclass
class State:
    """One number that is kept: its name, type and first value."""

    name: str
    dtype: torch.dtype
    start: str


class Reduction:
    """Text of one reduction of a kernel."""

    def __init__(self, kernel: Any, results: list[CSEVariable]) -> None:
        self.kernel = kernel
        self.results = results
        self.states: list[State] = []
        self.parts = False  # whether neighbouring vectors have states of their own

    def state(self, dtype: torch.dtype, start: float) -> str:
        name = f"{self.results[0]}_state{len(self.states)}"
        self.states.append(State(name, dtype, dtypes.literal(start, dtype, self.kernel.width)))
        return name

    def begin(self) -> list[str]:
        """Before the loop."""
        return [f"{kind} {name} = {start};" for kind, name, start in self.variables()]

    def variables(self) -> list[tuple[str, str, str]]:
        """(type, name, first value) of what is kept from step to step."""
        return [(dtypes.c_type(s.dtype, self.kernel.width), s.name, s.start) for s in self.states]

    def merge(self, own: list[str], other: list[str]) -> str:
        """Joins the states of two lanes or work-items, element types, in place."""
        raise NotImplementedError

    def end(self) -> list[str]:
        """After the loop: the results, the same in all lanes."""
        lines = []
        if self.kernel.plan.reduces_lanes:
            lines += self._join_lanes() if self.kernel.width > 1 else self._join_group()
        for result, state in zip(self.results, self._kept(), strict=True):
            text = dtypes.convert(state.name, state.dtype, result.dtype, self.kernel.width)
            lines.append(f"const {dtypes.c_type(result.dtype, self.kernel.width)} {result} = {text};")
        return lines

    def _kept(self) -> list[State]:
        return self.states

    def _join_lanes(self) -> list[str]:
        own = [f"{s.name}_0" for s in self.states]
        lines = [f"{dtypes.C_TYPES[s.dtype]} {s.name}_0 = FIRST({s.name});" for s in self.states]
        other = [f"{s.name}_l" for s in self.states]
        lines.append(f"for (int l = 1; l < {self.kernel.width}; ++l) {{")
        for s, name in zip(self.states, other, strict=True):
            kind = dtypes.C_TYPES[s.dtype]
            lines.append(f"  const {kind} {name} = LANE({kind}, {s.name}, l);")
        lines += [f"  {self.merge(own, other)}", "}"]
        for s in self.states:
            lines.append(f"{s.name} = ({dtypes.c_type(s.dtype, self.kernel.width)}){s.name}_0;")
        return lines

    def _join_group(self) -> list[str]:
        scratch = []
        for s in self.states:
            name = f"{s.name}_local"
            self.kernel.local_arrays[name] = dtypes.C_TYPES[s.dtype]
            scratch.append(name)
        own = [s.name for s in self.states]
        other = [f"{s.name}_other" for s in self.states]
        put = " ".join(f"{a}[get_local_id(0)] = {s};" for a, s in zip(scratch, own, strict=True))
        get = " ".join(
            f"const {dtypes.C_TYPES[s.dtype]} {o} = {a}[get_local_id(0) + step_];"
            for s, o, a in zip(self.states, other, scratch, strict=True)
        )
        take = " ".join(f"{s} = {a}[0];" for a, s in zip(scratch, own, strict=True))
        fence = "barrier(CLK_LOCAL_MEM_FENCE);"
        return [
            put,
            "for (uint step_ = get_local_size(0) / 2; step_ > 0; step_ /= 2) {",
            f"  {fence}",
            f"  if (get_local_id(0) < step_) {{ {get} {self.merge(own, other)} {put} }}",
            "}",
            f"{fence} {take} {fence}",
        ]


class Simple(Reduction):
    """Sums, products, extremes: one state and one operation."""

    def __init__(self, kernel: Any, results: list[CSEVariable], kind: str, dtype: torch.dtype, value: Any) -> None:
        super().__init__(kernel, results)
        self.operation, self.fold, neutral = _SIMPLE[kind]
        start = neutral if neutral is not None else dtypes.lowest(dtype) if kind == "max" else dtypes.highest(dtype)
        if dtype is torch.bool:  # of masks: the fold over the lanes is one of bits
            self.operation, self.fold = {"max": ("OR_OF", "FOLD_OR"), "min": ("AND_OF", "FOLD_AND")}.get(
                kind, (self.operation, self.fold)
            )
        name = self.state(dtype, start)
        text = kernel.kept(as_type(value, dtype), self.states[0].start, dtype)
        kernel.compute.writeline(f"{name} = {self.operation}({kernel.named(text, dtype)}, {name});")

    def begin(self) -> list[str]:
        lines = super().begin()
        if self.parts:
            for kind, name, start in self.variables():
                lines.append(f"{kind} {name}_parts[{PARTS}] = {{{', '.join([start] * PARTS)}}};")
        return lines

    def end(self) -> list[str]:
        name, lines = self.states[0].name, []
        if self.parts:
            lines = [f"{name} = {self.operation}({name}_parts[{i}], {name});" for i in range(PARTS)]
        return [*lines, *super().end()]

    def merge(self, own: list[str], other: list[str]) -> str:
        return f"{own[0]} = {self.operation}({other[0]}, {own[0]});"

    def _join_lanes(self) -> list[str]:
        s = self.states[0]
        return [f"{s.name} = ({dtypes.c_type(s.dtype, self.kernel.width)}){self.fold}({s.name});"]


class ArgumentOf(Reduction):
    """argmax and argmin: the first NaN, else the first among equals."""

    def __init__(self, kernel: Any, results: list[CSEVariable], kind: str, dtype: torch.dtype, value: Any) -> None:
        super().__init__(kernel, results)
        self.comparison = "IS_LARGER" if kind == "argmax" else "IS_SMALLER"
        dtype = torch.int32 if dtype is torch.bool else dtype
        best, where = self.state(dtype, 0), self.state(torch.int64, -1)
        new = kernel.named(as_type(value, dtype), dtype)
        index = as_type(kernel.index_value(kernel.reduction_index(), torch.int64), torch.int64)
        sign = ">" if kind == "argmax" else "<"
        nan = f" | (MASK({new} != {new}) & MASK({best} == {best}))" if dtype.is_floating_point else ""
        ordered = f"(MASK({new} {sign} {best}){nan})"
        better = kernel.named(
            kernel.active(f"(MASK({where} < {kernel.literal(0, torch.int64)}) | {ordered})"), torch.bool
        )
        kernel.compute.writeline(f"{best} = PICK({better}, {new}, {best}); {where} = PICK({better}, {index}, {where});")

    def merge(self, own: list[str], other: list[str]) -> str:
        return f"ARGUMENT_MERGE({self.comparison}, {own[0]}, {own[1]}, {other[0]}, {other[1]})"

    def _kept(self) -> list[State]:
        return self.states[1:]


class Welford(Reduction):
    """Mean, sum of squared differences from it, and weight."""

    def __init__(self, kernel: Any, results: list[CSEVariable], dtype: torch.dtype, values: list[Any]) -> None:
        super().__init__(kernel, results)
        self.dtype = dtype
        mean, m2, weight = (self.state(dtype, 0) for _ in range(3))
        self.kind = kind = dtypes.c_type(dtype, kernel.width)
        self.count: str | None = None  # vectors that all lanes have seen, but for the last one
        self.more: list[tuple[str, str, str]] = []  # as variables()
        self.take = ""  # ends a block
        new = [kernel.named(as_type(value, dtype), dtype) for value in values]
        line = kernel.compute.writeline
        if len(new) == 3:
            weights = kernel.named(kernel.kept(new[2], kernel.literal(0, dtype), dtype), dtype)
            line(f"WELFORD_MERGE({kind}, {mean}, {m2}, {weight}, {new[0]}, {new[1]}, {weights})")
            return
        self.count = f"{results[0]}_count" if kernel.counts_evenly() else None
        if kernel.width > 1 and kernel.plan.reduces_lanes:
            self._in_blocks(new[0])
        else:
            self._one_by_one(new[0], mean, m2, weight)

    def _in_blocks(self, value: str) -> None:
        """Sums of a block's differences from the mean before it: an addition waits for the last one, where Welford's
        step is three operations that wait for each other."""
        kernel, dtype, kind = self.kernel, self.dtype, self.kind
        zero, one = (kernel.literal(number, dtype) for number in (0, 1))
        total, squares, vectors = (f"{self.results[0]}_{name}" for name in ("sum", "squares", "vectors"))
        self.count = self.count and vectors
        self.more = [(kind, total, zero), (kind, squares, zero), ("int", vectors, "0")]
        mean, m2, weight = (state.name for state in self.states)
        seen = f"({kind})({dtypes.C_TYPES[dtype]}){vectors}" if self.count else weight
        self.take = f"WELFORD_TAKE({kind}, {mean}, {m2}, {total}, {squares}, {{}})"
        line = kernel.compute.writeline
        line(f"if (({vectors}++ & 15) == 1) {self.take.format(seen.replace(vectors, f'({vectors} - 1)'))}")
        if not self.count:
            line(f"{weight} += {kernel.kept(one, zero, dtype)};")
        line(f"{{ const {kind} delta_ = {kernel.kept(f'{value} - {mean}', zero, dtype)};")
        line(f"{total} += delta_; {squares} += delta_ * delta_; }}")

    def _one_by_one(self, value: str, mean: str, m2: str, weight: str) -> None:
        kernel, dtype, kind = self.kernel, self.dtype, self.kind
        zero, one = (kernel.literal(number, dtype) for number in (0, 1))
        line = kernel.compute.writeline
        # One division for all lanes where they have seen the same number of values.
        if self.count:
            self.more = [("int", self.count, "0")]
            share = f"({kind})({dtypes.scalar_literal(1, dtype)} / ({dtypes.C_TYPES[dtype]})++{self.count})"
        else:
            line(f"{weight} += {kernel.kept(one, zero, dtype)};")
            share = f"{one} / ({weight} == {zero} ? {one} : {weight})"
        line(f"{{ const {kind} share_ = {share}, delta_ = {kernel.kept(f'{value} - {mean}', zero, dtype)};")
        second = f"delta_ * {kernel.kept(f'{value} - {mean}', zero, dtype)}"
        line(f"{mean} += delta_ * share_; {m2} += {second}; }}")

    def variables(self) -> list[tuple[str, str, str]]:
        return [*super().variables(), *self.more]

    def end(self) -> list[str]:
        weight, count, lines = self.states[2].name, self.count, []
        if count and self.kernel.plan.reduces_lanes and self.kernel.width > 1:
            length = self.kernel.reduction_length()
            lanes = f"LANE_IDS < (int)({length} - ({count} - 1) * {self.kernel.width})"
            one, zero = self.kernel.literal(1, self.dtype), self.kernel.literal(0, self.dtype)
            text = f"({self.kind})({dtypes.C_TYPES[self.dtype]})({count} - 1) + PICK(MASK({lanes}), {one}, {zero})"
            lines.append(f"{weight} = {text};")
        elif count:
            lines.append(f"{weight} = ({self.kind})({dtypes.C_TYPES[self.dtype]}){count};")
        if self.take:
            lines.append(self.take.format(weight))
        return [*lines, *super().end()]

    def merge(self, own: list[str], other: list[str]) -> str:
        return f"WELFORD_MERGE({dtypes.C_TYPES[self.dtype]}, {', '.join([*own, *other])})"


class OnlineSoftmax(Reduction):
    """The greatest value and the sum of exponentials relative to it."""

    def __init__(self, kernel: Any, results: list[CSEVariable], dtype: torch.dtype, value: Any) -> None:
        super().__init__(kernel, results)
        self.dtype = dtype
        most, total = self.state(dtype, dtypes.lowest(dtype)), self.state(dtype, 0)
        new = kernel.named(kernel.kept(as_type(value, dtype), self.states[0].start, dtype), dtype)
        one = kernel.named(kernel.kept(kernel.literal(1, dtype), kernel.literal(0, dtype), dtype), dtype)
        exp = kernel.function_name("exp", dtype)
        kind = dtypes.c_type(dtype, kernel.width)
        kernel.compute.writeline(f"SOFTMAX_MERGE({kind}, {exp}, {most}, {total}, {new}, {one})")

    def merge(self, own: list[str], other: list[str]) -> str:
        exp = "exp"
        return f"SOFTMAX_MERGE({dtypes.C_TYPES[self.dtype]}, {exp}, {', '.join([*own, *other])})"


def keep_in_parts(reductions: list[Reduction], length: int) -> None:
    """Sets `parts` of the reductions of one loop along lanes, of which rows have this length, where it pays."""
    if len(reductions) <= MOST_IN_PARTS and length >= LEAST_IN_PARTS and all(type(r) is Simple for r in reductions):
        for made in reductions:
            made.parts = True


def write_blocks(kernel: Any, out: Any, reductions: list[Reduction], body: Sequence[Any]) -> None:
    """The loop over the blocks of whole vectors of a row of `left` elements, up to `blocks_end`; `body`: what is done
    for one vector, at `at`."""
    kind, block = kernel.index_dtype, PARTS * kernel.width
    variables = [(kind, name) for made in reductions for kind, name, _ in made.variables()]
    out.writeline(f"const {kind} blocks_end = left / {block} * {block};")
    out.writeline(f"for ({kind} block_at = 0; block_at < blocks_end; block_at += {block}) {{")
    out.writeline("#pragma unroll")
    out.writeline(f"for (int part = 0; part < {PARTS}; ++part) {{")
    with out.indent():
        out.writeline(f"const {kind} at = block_at + part * {kernel.width};")
        out.writeline(f"const int n = {kernel.width};")
        out.writelines(f"{kind} {name} = {name}_parts[part];" for kind, name in variables)
        for code in body:
            out.splice(code)
        out.writelines(f"{name}_parts[part] = {name};" for _, name in variables)
    out.writeline("}")
    out.writeline("}")


def reduce(kernel: Any, dtype: torch.dtype, source: torch.dtype, kind: str, value: Any) -> Reduction:
    """Writes the step of a reduction into the kernel's loop. Raises NotImplementedError for kinds that it lacks."""
    source = dtypes.computation_type(source)
    if kind in _SIMPLE:
        worked = torch.bool if kind == "any" else source if kind in ("max", "min") else dtypes.computation_type(dtype)
        return Simple(kernel, kernel.results(worked if kind == "any" else dtypes.computation_type(dtype)), kind, worked,
                      value)  # fmt: skip
    if kind in ("argmax", "argmin"):
        return ArgumentOf(kernel, kernel.results(torch.int64), kind, source, value)
    if kind in ("welford_reduce", "welford_combine"):
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        return Welford(kernel, kernel.results(source, source, source), source, values)
    if kind == "online_softmax_reduce":
        return OnlineSoftmax(kernel, kernel.results(source, source), source, value)
    raise NotImplementedError(f"generated kernels have no reduction {kind}")
