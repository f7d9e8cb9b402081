"""Reductions over an outer dimension: sums of columns, statistics of channels-last images.

A vector of 16 columns that runs down all rows reads 64 bytes of each, which neither caches nor prefetching like. So a
task takes strips of up to STRIP vectors, and of each strip ROWS rows at a time. What is kept of each vector lies in an
array meanwhile.
"""

from collections.abc import Sequence
from typing import Any

from torch._inductor.codegen.common import IndentedBuffer

WIDTH = 16
STRIP = 64  # vectors
ROWS = 8
# More variables than this for each vector get shorter strips: their arrays lie on the stack of a work-item.
MOST_KEPT = 4


class ColumnLoop:
    """The loop over r of a kernel whose lanes are results. `parts`: what it does for one r and one vector;
    `reductions`: what it computes."""

    def __init__(self, kind: str, index: str, parts: Sequence[Any], reductions: Sequence[Any]) -> None:
        self.kind, self.index = kind, index
        self.body = IndentedBuffer()
        for part in parts:
            self.body.splice(part)
        self.kept = [variable for made in reductions for variable in made.variables()]
        self.strip = STRIP if len(self.kept) <= MOST_KEPT else STRIP // 4

    def in_front_of(self, rest: Any) -> Any:
        """As a plain loop, in front of what comes after it."""
        out = IndentedBuffer()
        out.writelines(f"{kind} {name} = {start};" for kind, name, start in self.kept)
        self._loop(out, "0", "columns")
        out.splice(rest)
        return out

    def _loop(self, out: Any, first: str, last: str) -> None:
        out.writeline(f"for ({self.kind} {self.index} = {first}; {self.index} < {last}; ++{self.index}) {{")
        with out.indent():
            out.splice(self.body)
        out.writeline("}")

    def write_strips(self, out: Any, lane_code: Any, after: Sequence[Any]) -> None:
        """The strips of `left` columns; `after`: what follows the loop, for one vector."""
        out.writeline(f"for ({self.kind} strip = 0; strip < left; strip += {self.strip * WIDTH}) {{")
        with out.indent():
            out.writeline(f"const int vectors = MIN_OF({self.strip}, (left - strip + {WIDTH - 1}) / {WIDTH});")
            out.writelines(f"{kind} {name}_kept[{self.strip}];" for kind, name, _ in self.kept)
            starts = " ".join(f"{name}_kept[v] = {start};" for _, name, start in self.kept)
            out.writeline(f"for (int v = 0; v < vectors; ++v) {{ {starts} }}")
            out.writeline(f"for ({self.kind} top = 0; top < columns; top += {ROWS}) {{")
            with out.indent():
                out.writeline(f"const {self.kind} bottom = MIN_OF(top + {ROWS}, columns);")
                self._open_vector(out, lane_code)
                with out.indent():
                    self._loop(out, "top", "bottom")
                    out.writelines(f"{name}_kept[v] = {name};" for _, name, _ in self.kept)
                out.writeline("}")
            out.writeline("}")
            self._open_vector(out, lane_code)
            with out.indent():
                for part in after:
                    out.splice(part)
            out.writeline("}")
        out.writeline("}")

    def _open_vector(self, out: Any, lane_code: Any) -> None:
        out.writeline("for (int v = 0; v < vectors; ++v) {")
        with out.indent():
            out.writeline(f"const {self.kind} at = strip + v * {WIDTH};")
            out.writeline(f"const int n = MIN_OF({WIDTH}, left - at);")
            out.splice(lane_code)
            out.writelines(f"{kind} {name} = {name}_kept[v];" for kind, name, _ in self.kept)
