"""How a generated kernel reads and writes tensors: vectors, single lanes, masks, and indices that are checked.

Loads read whole vectors (every tensor may be read 256 bytes over its end); stores heed the lanes that count.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.virtualized import OpsValue, V, ops
from torch.utils._sympy.symbol import SymT, free_symbol_is_type, symbol_is_type

from . import dtypes, lanes
from .ops import as_type


class MemoryKernel(SIMDKernel):
    """Loads and stores of kernel.py's OclKernel."""

    # of SIMDKernel
    _load_mask: Any
    body: Any
    inside_reduction: bool

    # ---- masks and bounds
    @contextlib.contextmanager
    def mask_loads(self, mask: Any, value: float) -> Iterator[CSEVariable]:
        prior = self._load_mask
        both = ops.logical_and(mask, prior) if prior is not None else mask
        both = both.value if isinstance(both, OpsValue) else both
        self._load_mask = both
        try:
            yield both
        finally:
            self._load_mask = prior

    def _error(self, message: str) -> str:
        if message not in self.errors:
            self.errors.append(message)
        self.includes["common/device_errors.clh"] = None
        return f"error_code{self.errors.index(message)}"

    def _counting(self, mask: str) -> str:
        """The lanes of a mask that stand for elements and may be loaded."""
        if self._load_mask is not None:
            mask = f"({mask} & {self._load_mask})"
        return f"({mask} & MASK(LANE_IDS < n))" if self.in_lanes else mask

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Reports an index that is out of range, as eager kernels do, and makes it 0, so that nothing is read there."""
        if not (lower or upper):
            return
        code = self._error("")
        is_variable = isinstance(expr, sympy.Symbol) and symbol_is_type(expr, SymT.TMP)
        variable = self.cse.varname_map[str(expr)] if is_variable else self.index_value(expr, torch.int64)
        dtype, name = variable.dtype, str(variable)
        element, kind = dtypes.C_TYPES[dtype], dtypes.c_type(dtype, self.width)
        limit = f"({element})({self.index_to_str(self.prepare_indexing(size))})"
        wrong = f"(MASK({name} < ({kind})0) | MASK({name} >= ({kind}){limit}))"
        report = f"report_error(error, {code}, (long){{}}, (long){limit});"
        if self.width == 1 or not self.in_lanes:
            body = f"{report.format(f'FIRST({name})')} {name} = ({kind})0;"
        else:
            element_text = f"LANE({element}, {name}, l)"
            body = (
                f"for (int l = 0; l < n; ++l) if (LANE(int, wrong_, l)) {report.format(element_text)} "
                f"{name} = PICK(wrong_, ({kind})0, {name});"
            )
        mask = dtypes.c_type(torch.bool, self.width)
        line = f"{{ const {mask} wrong_ = {self._counting(wrong)}; if (ANY_OF(wrong_)) {{ {body} }} }}"
        self.cse.generate(self.compute, line, assignment=False)

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        code = self._error(f"Assertion failed: {msg}" if msg else "Assertion failed")
        wrong = self._counting(f"MASK({as_type(cond, torch.bool)} == 0)")
        self.compute.writeline(f"if (ANY_OF({wrong})) report_error(error, {code}, 0L, 0L);")

    # ---- loads
    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        variable, dtype = self.args.input(name), V.graph.get_dtype(name)
        computed = dtypes.computation_type(dtype)
        if self._is_on_host(name):
            self.host_values[variable] = computed
            return self.cse.generate(self.loads, self._host_value(variable, computed), dtype=computed, shape=())
        index = self.prepare_indexing(index)
        masked = self._load_mask is not None
        indirect = free_symbol_is_type(index, SymT.TMP)
        buffer = self.compute if masked or indirect else self.loads
        types = f"{dtypes.NAMES[dtype]}, {dtypes.NAMES[computed]}"
        stride = lanes.lane_stride(self, index)
        if self.width == 1 or (stride == 0 and self.in_lanes) or (not self.in_lanes and not indirect):
            return self._load_one(buffer, variable, types, computed, self.index_to_str(index))
        if not self.in_lanes:
            text, lines = self.lane_index(index)
            return self._load_first(buffer, variable, types, computed, text, lines)
        if stride == 1:
            return self._load_vector(buffer, variable, types, computed, self.index_to_str(index))
        text, lines = self.lane_index(index)
        test = f"if (LANE(int, {self._load_mask}, l)) " if masked else ""
        value = self._as_element(f"LOAD({types}, {variable}, {text})", computed)
        body = f"{test}{{ {' '.join(lines)} lane_[l] = {value}; }}"
        return self._each_lane(buffer, f"{variable}[{index}] {self._load_mask}", computed, body)

    @staticmethod
    def _is_on_host(name: str) -> bool:
        buffer = V.graph.try_get_buffer(name)
        device = buffer.get_device() if buffer is not None else None
        return device is not None and device.type == "cpu"

    def _host_value(self, variable: str, dtype: torch.dtype) -> str:
        if dtype is torch.bool:
            return f"({dtypes.c_type(dtype, self.width)})({variable} != 0 ? {-1 if self.width > 1 else 1} : 0)"
        return f"({dtypes.c_type(dtype, self.width)})({dtypes.C_TYPES[dtype]}){variable}"

    def _as_element(self, text: str, dtype: torch.dtype) -> str:
        """One loaded element as a lane: bools are stored as 0 and 1."""
        return f"({text} != 0 ? {-1 if self.width > 1 else 1} : 0)" if dtype is torch.bool else text

    def _load_one(self, buffer: Any, variable: str, types: str, dtype: torch.dtype, index: str) -> CSEVariable:
        text = self._as_element(f"LOAD({types}, {variable}, {index})", dtype)
        if self._load_mask is not None:
            text = f"(ANY_OF({self._counting(self.literal(True, torch.bool))}) ? {text} : 0)"
        kind = dtypes.c_type(dtype, self.width)
        return self.cse.generate(buffer, f"({kind}){text}" if self.width > 1 else text, dtype=dtype, shape=())

    def _load_first(
        self, buffer: Any, variable: str, types: str, dtype: torch.dtype, index: str, lines: list[str]
    ) -> CSEVariable:
        """Outside of the loop over lanes all lanes are equal."""
        kind = dtypes.c_type(dtype, self.width)
        value = self._as_element(f"LOAD({types}, {variable}, {index})", dtype)
        test = f"if (FIRST({self._load_mask})) " if self._load_mask is not None else ""
        body = f"{test}{{ {' '.join(lines)} {{name}} = ({kind})({value}); }}"
        key = f"{variable}[{index}] {lines} {self._load_mask}"
        return self.cse.of_lines(buffer, key, dtype, lambda name: [
            f"{kind} {name} = {self.literal(0, dtype)};", body.replace("{name}", name)])  # fmt: skip

    def _load_vector(self, buffer: Any, variable: str, types: str, dtype: torch.dtype, index: str) -> CSEVariable:
        storage, computed = types.split(", ")
        vector = f"LOADV({storage}, {computed}, {self.width}, {variable}, {index})"
        if dtype is torch.bool:
            vector = f"MASK({vector} != (uchar)0)"
        if self._load_mask is None:
            return self.cse.generate(buffer, vector, dtype=dtype, shape=())
        kind, element = dtypes.c_type(dtype, self.width), dtypes.C_TYPES[dtype]
        value = self._as_element(f"LOAD({types}, {variable}, {index} + l)", dtype)
        mask = self._load_mask
        return self.cse.of_lines(buffer, f"{vector} {mask}", dtype, lambda name: [
            f"{kind} {name};",
            f"if (ALL_OF({mask} | MASK(LANE_IDS >= n))) {name} = {vector};",
            f"else {{ {element} lane_[{self.width}] = {{0}}; for (int l = 0; l < n; ++l) "
            f"if (LANE(int, {mask}, l)) lane_[l] = {value}; {name} = vload{self.width}(0, lane_); }}"])  # fmt: skip

    # ---- stores
    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        line = self._store_line(name, index, value, mode)
        self.stores.writeline(DeferredLine(name, line))

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        prior, self.inside_reduction = self.inside_reduction, False
        try:
            self.post_loop.writeline(DeferredLine(name, self._store_line(name, index, value, None)))
        finally:
            self.inside_reduction = prior

    def _store_line(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any) -> str:
        if mode not in (None, "atomic_add"):
            raise NotImplementedError(f"generated kernels have no store of kind {mode}")
        variable, dtype = self.args.output(name), V.graph.get_dtype(name)
        computed = dtypes.computation_type(dtype)
        text = as_type(value, computed)
        if dtype is torch.bool:
            text = f"convert_{'uchar' if self.width == 1 else f'uchar{self.width}'}(FROM_MASK({text}))"
        element = "uchar" if dtype is torch.bool else dtypes.C_TYPES[computed]
        types = f"{dtypes.NAMES[dtype]}, {dtypes.NAMES[computed]}"
        index = self.prepare_indexing(index)
        if mode == "atomic_add":
            self.atomics[dtypes.NAMES[dtype]] = None
            put = f"atomic_add_{dtypes.NAMES[dtype]}({variable} + ({{}}), {{}});"
        else:
            put = f"STORE({types}, {variable}, {{}}, {{}});"
        kind = element if self.width == 1 else f"{element}{self.width}"
        if not self.in_lanes:
            place, lines = self.lane_index(index)
            one = put.format(place, "FIRST(put_)")
            alone = self.plan.tree is not None and self.width == 1 and not self.inside_reduction
            guard = "if (get_local_id(0) == 0) " if alone else ""
            return f"{guard}{{ const {kind} put_ = {text}; {' '.join(lines)} {one} }}"
        if mode is None and lanes.lane_stride(self, index) == 1:
            return f"PUT({types}, {variable}, {self.index_to_str(index)}, {text}, n);"
        place, lines = self.lane_index(index)
        one = put.format(place, f"LANE({element}, put_, l)")
        return f"{{ const {kind} put_ = {text}; for (int l = 0; l < n; ++l) {{ {' '.join(lines)} {one} }} }}"
