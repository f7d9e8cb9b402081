"""One generated kernel: loads, stores, loops and its text.

The layout is lanes.py's plan. CPU style: a work-item does a block of results, 16 lanes at a time; the last vector of a
row holds `n` < 16 of them. Loads read whole vectors (every tensor may be read 256 bytes over its end), stores and
reductions heed n. GPU style: a work-item does one result, or a group reduces one together.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer, SizeArg, TensorArg
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.symbol import SymT, free_symbol_is_type, symbol_is_type

from . import dtypes, lanes, reductions
from .columns import ColumnLoop
from .memory import MemoryKernel
from .ops import OclOverrides
from .printer import printer
from .source import kernel_text
from .variables import OclCSE

# What differs from vector to vector, or from lane to lane.
_WITHIN_ROWS = {"n", "at", "l", "LANE_IDS", "LANE_IDS_LONG", "LOADV"}


class OclKernel(MemoryKernel):
    overrides = OclOverrides
    suffix = ";"
    kexpr = sexpr = staticmethod(printer.doprint)

    def __init__(self, tiling: dict[str, sympy.Expr], **options: Any) -> None:
        super().__init__(tiling, **options)
        self.cse = OclCSE("", ";")
        self.width = lanes.style_width(V.graph.get_current_device_or_throw())
        self.plan = lanes.Plan(self.width, self.range_trees[0])
        self.names = itertools.count()
        self.includes: dict[str, None] = {}
        self.function_types: set[torch.dtype] = set()
        self.host_values: dict[str, torch.dtype] = {}  # parameters that are numbers, from CPU tensors of one element
        self.local_arrays: dict[str, str] = {}
        self.errors: list[str] = []
        self.atomics: dict[str, None] = {}  # "float32" of each type that is added to atomically
        self.outside_loops: list[CSEVariable] = []
        self.pending: list[reductions.Reduction] = []
        self.has_loop = False  # over r
        self.columns: ColumnLoop | None = None  # the only loop over r so far, when there is nothing before it
        self.row_code, self.lane_code = IndentedBuffer(), IndentedBuffer()  # of the tree in the lanes
        self.same_along_rows: set[str] = set()  # variables of row_code
        self.loop_code, self.post_loop = IndentedBuffer(), IndentedBuffer()  # entries of r; stores of results

    # ---- plan and indices
    def finalize_indexing(self, indices: Sequence[sympy.Expr]) -> None:
        self.plan = lanes.make_plan(self, indices, self.width)

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return dtypes.C_TYPES[dtype]

    @property
    def in_lanes(self) -> bool:
        """Whether the code being written is inside of the loop over lanes."""
        return self.width > 1 and (self.inside_reduction or not self.plan.reduces_lanes)

    def create_cse_var(self, *arguments: Any, **options: Any) -> CSEVariable:
        variable = super().create_cse_var(*arguments, **options)
        if not self.inside_reduction:
            self.outside_loops.append(variable)
        return variable

    def codegen_iteration_ranges_entry(self, entry: Any) -> None:
        text = self.index_to_str(entry.expr)
        kind = f"const {self.index_dtype}"
        role = self.plan.role(entry)
        if role is lanes.Role.OTHER:
            return
        if self.width > 1 and entry.root is self.plan.tree:
            if role is lanes.Role.LANE:
                self.lane_code.writeline(f"{kind} {entry.name} = {text} + at;")
            else:
                self.row_code.writeline(f"{kind} {entry.name} = {text};")
        else:
            (self.loop_code if entry.is_reduction else self.indexing_code).writeline(f"{kind} {entry.name} = {text};")

    def is_same_along_rows(self, text: str) -> bool:
        """Whether an expression can be computed once for a row: compilers leave roots and divisions of one number where
        they are. Not a load from where the kernel writes, or whose index is checked in the loop."""
        if self.width == 1 or self.features.is_reduction():
            return False
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        variables = {name for name in names if name.startswith("tmp")}
        if names & _WITHIN_ROWS or not variables <= self.same_along_rows:
            return False
        if "LOAD" in names and (variables or any(name.startswith(("out_ptr", "in_out_ptr")) for name in names)):
            return False
        indices = (entry for symbol, entry in self.range_tree_nodes.items() if str(symbol) in names)
        return all(self.plan.role(entry) is lanes.Role.UNIFORM for entry in indices)

    def reduction_index(self) -> sympy.Expr:
        """r itself."""
        tree = next(tree for tree in self.range_trees if tree.is_reduction)
        return tree.lookup(sympy.S.One, tree.numel).symbol()

    def reduction_length(self) -> str:
        return "columns"

    def counts_evenly(self) -> bool:
        """Whether all lanes that count at all have seen the same number of elements, but for the last vector."""
        return not (self.width > 1 and self.plan.reduces_lanes) or self.plan.row is None or not self.masks_lanes()

    def masks_lanes(self) -> bool:
        """Whether a reduction sees vectors that are not full."""
        if not (self.width > 1 and self.plan.reduces_lanes):
            return False
        row = self.plan.tree.numel if self.plan.row is None else self.plan.row
        return not V.graph.sizevars.statically_known_multiple_of(row, self.width)

    def lane_index(self, index: sympy.Expr) -> tuple[str, list[str]]:
        """`index` in lane `l`, and the lines that it needs before it. In a kernel without vectors it is just text."""
        if self.width == 1:
            return self.index_to_str(index), []
        kind = f"const {self.index_dtype}"
        lines, names = [], {}
        for symbol in sorted(index.free_symbols, key=str):
            name = f"{symbol}_l"
            entry = self.range_tree_nodes.get(symbol)
            if symbol_is_type(symbol, SymT.TMP):
                element = dtypes.C_TYPES[self.cse.varname_map[str(symbol)].dtype]
                value = f"LANE({element}, {symbol}, l)" if self.in_lanes else f"FIRST({symbol})"
                lines.append(f"const {element} {name} = {value};")
            elif entry is not None and self.plan.role(entry) is lanes.Role.LANE:
                lines.append(f"{kind} {name} = {symbol} + l;")
            elif entry is not None and self.plan.role(entry) is lanes.Role.OTHER:
                position = sympy.Symbol("position_l", integer=True, nonnegative=True)
                text = self.index_to_str(entry.expr.xreplace({entry.root.index_sym(): position}))
                lines.append(f"{kind} {name} = {text.replace('position_l', f'({entry.root.name} + at + l)')};")
            else:
                continue
            names[symbol] = sympy.Symbol(name, integer=True, nonnegative=symbol.is_nonnegative)
        return self.index_to_str(index.xreplace(names)), lines

    def index_value(self, expression: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        """An index as a value."""
        index = self.prepare_indexing(expression)
        kind, element = dtypes.c_type(dtype, self.width), dtypes.C_TYPES[dtype]
        stride = lanes.lane_stride(self, index)
        if free_symbol_is_type(index, SymT.TMP) and not self.in_lanes:
            stride = None
        wide = self.width > 1
        truth = -1 if wide else 1

        def scalar(text: str) -> str:
            return f"(({text}) != 0 ? {truth} : 0)" if dtype is torch.bool else f"({element})({text})"

        if stride is None and wide:
            text, lines = self.lane_index(index)
            body = " ".join([*lines, f"lane_[l] = {scalar(text)};"])
            if not self.in_lanes:
                return self.cse.of_lines(self.compute, f"{kind} {index}", dtype, lambda name: [
                    f"{kind} {name}; {{ {' '.join(lines)} {name} = ({kind})({scalar(text)}); }}"])  # fmt: skip
            return self._each_lane(self.compute, f"{kind} {index}", dtype, body)
        base = self.index_to_str(index)
        if not stride or not self.in_lanes:
            return self.cse.generate(self.compute, f"({kind})({scalar(base)})", dtype=dtype, shape=())
        numbers = f"(({dtypes.c_type(torch.int64, self.width)})((long)({base})) + {stride}L * LANE_IDS_LONG)"
        if dtype is torch.int32:
            numbers = f"(({kind})((int)({base})) + {stride} * LANE_IDS)"
            return self.cse.generate(self.compute, numbers, dtype=dtype, shape=())
        text = dtypes.convert(numbers, torch.int64, dtype, self.width)
        return self.cse.generate(self.compute, text, dtype=dtype, shape=())

    def _each_lane(self, buffer: Any, key: str, dtype: torch.dtype, body: str) -> CSEVariable:
        """A vector made one lane after the other; `body` sets lane_[l]. Lanes past the end are zeros."""
        kind, element = dtypes.c_type(dtype, self.width), dtypes.C_TYPES[dtype]
        zeros = f"{element} lane_[{self.width}] = {{0}};"
        load = f"vload{self.width}(0, lane_)"
        return self.cse.of_lines(buffer, key, dtype, lambda name: [
            f"{kind} {name}; {{ {zeros} for (int l = 0; l < n; ++l) {{ {body} }} {name} = {load}; }}"])  # fmt: skip

    # ---- small helpers of reductions.py
    def literal(self, value: float, dtype: torch.dtype) -> str:
        return dtypes.literal(value, dtype, self.width)

    def named(self, text: str, dtype: torch.dtype) -> str:
        """The text, or a variable for it: macros name their arguments several times."""
        return str(self.cse.generate(self.compute, text, dtype=dtype, shape=()))

    def kept(self, text: str, neutral: str, dtype: torch.dtype) -> str:
        """The text in lanes that count, `neutral` in the others."""
        return f"PICK(MASK(LANE_IDS < n), {text}, {neutral})" if self.masks_lanes() else f"({text})"

    def active(self, mask: str) -> str:
        return f"({mask} & MASK(LANE_IDS < n))" if self.masks_lanes() else mask

    def function_name(self, name: str, dtype: torch.dtype) -> str:
        if dtype is torch.float64:
            return name
        self.needs_functions(dtype, ())
        return {"exp": "exp_fast"}[name] if self.width > 1 else name

    def needs_functions(self, dtype: torch.dtype, includes: Sequence[str]) -> None:
        """The library's functions exist for one type in a program."""
        self.function_types.add(dtype)
        if len(self.function_types) > 1:
            raise NotImplementedError("a generated kernel uses special functions of float32 and of float64")
        self.includes.update(dict.fromkeys(includes))

    def results(self, *types: torch.dtype) -> list[CSEVariable]:
        return [self.cse.newvar(dtype=dtype, shape=()) for dtype in types]

    # ---- reductions and loops
    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            made = reductions.reduce(self, dtype, src_dtype, reduction_type, value)
            self.pending.append(made)
            many = tuple(made.results)
            self.cse.reduction_cache[key] = many[0] if len(many) == 1 else many
            self.outside_loops.extend(many)
        return self.cse.reduction_cache[key]

    def codegen_body(self) -> None:
        parts = (self.loads, self.compute, self.stores)
        if any(parts) or self.post_loop or self.pending:
            if self.inside_reduction and self.features.is_reduction():
                self._write_loop(parts)
            else:
                for part in parts:
                    self.body.splice(part)
        for part in (*parts, self.post_loop):
            part.clear()

    def _write_loop(self, parts: Sequence[Any]) -> None:
        tree = next(tree for tree in self.range_trees if tree.is_reduction)
        if self.columns is not None:  # several loops: no strips
            self.body = self.columns.in_front_of(self.body)
            self.columns = None
        elif self.width > 1 and not self.plan.reduces_lanes and not self.body and not self.has_loop:
            self.columns = ColumnLoop(self.index_dtype, tree.name, (self.loop_code, *parts), self.pending)
        self.has_loop = True
        if self.columns is None:
            self._write_loop_here(tree, parts)
        for made in self.pending:
            self.body.writelines(made.end())
        self.body.splice(self.post_loop)
        self.pending = []
        self.cse.invalidate(OrderedSet(self.outside_loops))
        tree.cache_clear()
        for buffer in (self.loop_code, *((self.row_code, self.lane_code) if self.plan.reduces_lanes else ())):
            buffer.clear()

    def _write_loop_here(self, tree: Any, parts: Sequence[Any]) -> None:
        if self.width > 1 and self.plan.reduces_lanes:
            row = self.plan.tree.numel if self.plan.row is None else self.plan.row
            reductions.keep_in_parts(self.pending, lanes.hint(row))
        for made in self.pending:
            self.body.writelines(made.begin())
        group = self.width == 1 and self.plan.reduces_lanes
        if group:
            self.body.writeline("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")
        if self.width > 1 and self.plan.reduces_lanes:
            self.write_lanes(self.body, tree, "0", "columns", parts)
        else:
            start, step = ("get_local_id(0)", "get_local_size(0)") if group else ("0", "1")
            r = tree.name
            self.body.writeline(f"for ({self.index_dtype} {r} = {start}; {r} < columns; {r} += {step}) {{")
            with self.body.indent():
                for part in (self.loop_code, *parts):
                    self.body.splice(part)
            self.body.writeline("}")

    def write_lanes(self, out: Any, tree: Any, first: str, last: str, parts: Sequence[Any]) -> None:
        """Loops over [first, last) of the tree in the lanes: rows, and vectors of each row."""
        index, kind = tree.name, self.index_dtype
        if self.plan.row is None:
            out.writeline(f"{{ const {kind} {index} = {first}, left = {last} - {first};")
        else:
            row = self._row_text()
            out.writeline(f"for ({kind} {index} = {first}; {index} < {last};) {{")
            out.writeline(f"  const {kind} row_left = {row} - {index} % {row};")
            out.writeline(f"  const {kind} left = MIN_OF(row_left, {last} - {index});")
        with out.indent():
            out.splice(self.row_code)
            if self.columns is not None:
                self.columns.write_strips(out, self.lane_code, parts)
            else:
                self._write_vectors(out, parts)
            if self.plan.row is not None:
                out.writeline(f"{index} += left;")
        out.writeline("}")

    def _row_text(self) -> str:
        row = self.plan.row
        return "" if row is None else f"({self.index_to_str(V.graph.sizevars.simplify(row))})"

    def _write_vectors(self, out: Any, parts: Sequence[Any]) -> None:
        def body(lanes: str) -> None:
            with out.indent():
                out.writeline(f"const int n = {lanes};")
                for part in (self.lane_code, *parts):
                    out.splice(part)
            out.writeline("}")

        kind, width = self.index_dtype, self.width
        if any(made.parts for made in self.pending):
            reductions.write_blocks(self, out, self.pending, (self.lane_code, *parts))
            out.writeline(f"for ({kind} at = blocks_end; at < left; at += {width}) {{")
            return body(f"MIN_OF({width}, left - at)")
        if not (self.pending and self.plan.row is not None and self.masks_lanes()):
            out.writeline(f"for ({kind} at = 0; at < left; at += {width}) {{")
            return body(f"MIN_OF({width}, left - at)")
        # Masks cost as much as short sums: whole vectors need none, which the compiler sees when n is a number.
        out.writeline(f"const {kind} whole = left / {width} * {width};")
        out.writeline(f"for ({kind} at = 0; at < whole; at += {width}) {{")
        body(str(width))
        out.writeline(f"for ({kind} at = whole; at < left; at += {width}) {{")
        body("left - at")

    # ---- text and call
    def parameters(self) -> list[tuple[str, str, str]]:
        """(letter, declaration, expression in the wrapper) of every argument, in order."""
        _, calls, signature, _ = self.args.python_argdefs()
        rows = []
        for argument, outer in zip(signature, calls, strict=True):
            if isinstance(argument, TensorArg):
                rows.append(self._tensor_parameter(argument, str(outer)))
            elif isinstance(argument, SizeArg):
                is_float = isinstance(outer, sympy.Symbol) and not outer.is_integer
                kind = "double" if is_float else "long"
                rows.append(("d" if is_float else "q", f"{kind} {argument.name}", self._wrapper_text(outer)))
            else:
                raise NotImplementedError(f"generated kernels take no {type(argument).__name__}")
        return rows

    def _tensor_parameter(self, argument: TensorArg, outer: str) -> tuple[str, str, str]:
        if argument.name in self.host_values:
            dtype = self.host_values[argument.name]
            letter = dtypes.LETTERS.get(dtype, "Q")
            kind = {"F": "float", "D": "double", "Q": "long"}[letter]
            return letter, f"{kind} {argument.name}", outer
        storage = dtypes.STORAGE[argument.dtype]
        if self.is_written(argument):
            return "t", f"global {storage}* {argument.name}", outer
        # Nothing else may write to what is only read: then its loads can leave loops. A tensor that is changed in place
        # may come as an input and as an output.
        restrict = "" if argument.buffer in {str(other) for other in self.args.output_buffers} else "restrict "
        return "t", f"global const {storage}* {restrict}{argument.name}", outer

    def is_written(self, argument: TensorArg) -> bool:
        inplace = {b.inner_name for b in self.args.inplace_buffers.values() if hasattr(b, "inner_name")}
        return argument.name in inplace or argument.name in {str(v) for v in self.args.output_buffers.values()}

    @staticmethod
    def _wrapper_text(expression: Any) -> str:
        return str(V.graph.wrapper_code.codegen_python_sizevar(expression))

    def codegen_kernel(self, name: str = "KERNEL_NAME") -> str:
        self.codegen_body()
        self._row_text()  # may name sizes that nothing else names, and so makes them parameters
        return kernel_text(self, name)

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        for size in self.args.sizevars:
            wrapper.ensure_size_computed(size)
        rows = next(tree.numel for tree in self.range_trees if not tree.is_reduction)
        columns = [tree.numel for tree in self.range_trees if tree.is_reduction] if self.features.is_reduction() else []
        numels = [self._wrapper_text(size) for size in (rows, columns[0] if columns else sympy.S.One)]
        arguments = [outer for _, _, outer in self.parameters()]
        wrapper.writeline(f"{name}({', '.join([*arguments, *numels])})")
