"""Which index of a kernel runs along the lanes of its vectors, and how the other indices depend on it.

A kernel has a flat index x over its results and, when it reduces, a flat index r. Inductor splits both into entries,
(x // divisor) % length. On CPU devices 16 neighbouring values of x or of r are worked on at once, within *rows* that
are chosen so that an entry is constant, or grows by one from lane to lane, or (rarely) neither.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable
from enum import Enum
from typing import Any

import sympy
import torch
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.symbol import SymT, free_symbol_is_type, symbol_is_type

from .. import ocl

WIDTH = 16
# Shorter rows would leave most lanes empty; then indices are computed lane by lane.
LEAST_ROW = 8
# Fewer elements than this are not worth a group that reduces them together.
LEAST_GROUP = 32


class Role(Enum):
    UNIFORM = "the same in all lanes"
    LANE = "one more from lane to lane"
    OTHER = "computed for each lane"


@dataclasses.dataclass
class Plan:
    """How a kernel's work is laid out."""

    width: int
    tree: Any  # whose values lie in the lanes; on GPU devices: in the work-items of a group, or None
    row: Any = None  # length of the parts of the tree that vectors do not cross; None: there is one part

    @property
    def reduces_lanes(self) -> bool:
        return self.tree is not None and bool(self.tree.is_reduction)

    def role(self, entry: Any) -> Role:
        if self.width == 1 or entry.root is not self.tree:
            return Role.UNIFORM
        sizes = V.graph.sizevars
        row = self.tree.numel if self.row is None else self.row
        if self.row is not None and sizes.statically_known_multiple_of(entry.divisor, row):
            return Role.UNIFORM
        if entry.divisor == 1 and (
            sizes.statically_known_multiple_of(entry.length, row)
            or sizes.statically_known_equals(entry.length, self.tree.numel)
        ):
            return Role.LANE
        return Role.OTHER


def hint(size: sympy.Expr) -> int:
    """A size, or what it was when the graph was compiled."""
    sizes = V.graph.sizevars
    value = sizes.optimization_hint(size, fallback=8192) if hasattr(sizes, "optimization_hint") else sizes.size_hint(
        size, fallback=8192
    )  # fmt: skip
    return int(value)


def _row(lengths: Iterable[sympy.Expr], numel: sympy.Expr) -> Any:
    sizes = V.graph.sizevars
    inner = [length for length in lengths if not sizes.statically_known_equals(length, numel)]
    if not inner:
        return None
    if all(isinstance(length, (int, sympy.Integer)) for length in inner):
        row = functools.reduce(math.gcd, (int(length) for length in inner))
        return None if row < LEAST_ROW else sympy.Integer(row)
    for candidate in inner:
        if all(sizes.statically_known_multiple_of(length, candidate) for length in inner):
            return candidate
    return None


def make_plan(kernel: Any, indices: Iterable[sympy.Expr], width: int) -> Plan:
    """Chooses by what the kernel's indices do when x or r grows by one."""
    results = next(tree for tree in kernel.range_trees if not tree.is_reduction)
    reduced = next((tree for tree in kernel.range_trees if tree.is_reduction), None)
    tree = results
    if kernel.features.is_reduction() and reduced is not None and _along_reduction(kernel, indices, results, reduced):
        tree = reduced
    if width == 1:
        return Plan(width, tree if tree is reduced else None)
    lengths = [e.length for e in kernel.range_tree_nodes.values() if e.root is tree and e.divisor == 1]
    return Plan(width, tree, _row(lengths, tree.numel))


def _along_reduction(kernel: Any, indices: Iterable[sympy.Expr], results: Any, reduced: Any) -> bool:
    row, rows = hint(reduced.numel), hint(results.numel)
    along = across = 0
    for index in indices:
        if free_symbol_is_type(index, SymT.TMP):
            continue
        strides = kernel.get_strides_of_load(index)
        of_r = strides.get(sympy.Symbol(reduced.name, integer=True, nonnegative=True), 0)
        of_x = strides.get(sympy.Symbol(results.name, integer=True, nonnegative=True), 0)
        along += of_r == 1
        across += of_x == 1 and of_r not in (0, 1)
    if kernel.width == 1:
        return rows == 1 or (along >= across and row >= LEAST_GROUP)
    if rows < WIDTH // 2:
        return True
    return along >= across and (row >= LEAST_ROW or rows < WIDTH)


def lane_stride(kernel: Any, index: sympy.Expr) -> int | None:
    """What `index` grows by from lane to lane; None when that is not one number."""
    plan = kernel.plan
    if plan.width == 1:
        return 0
    lanes = {}
    for symbol in index.free_symbols:
        if symbol_is_type(symbol, SymT.TMP):
            return None
        entry = kernel.range_tree_nodes.get(symbol)
        role = plan.role(entry) if entry is not None else Role.UNIFORM
        if role is Role.OTHER:
            return None
        if role is Role.LANE:
            lanes[symbol] = symbol + 1
    if not lanes:
        return 0
    if any(atom.free_symbols & lanes.keys() for atom in index.atoms(FloorDiv, ModularIndexing)):
        return None
    step = sympy.expand(index.xreplace(lanes) - index)
    return int(step) if isinstance(step, sympy.Integer) else None


def is_integer_expression(expression: sympy.Expr) -> bool:
    return bool(expression.is_integer) or isinstance(expression, (int, sympy.Integer, sympy.Symbol))


def style_width(device: torch.device) -> int:
    """Lanes of a value on this device."""
    return WIDTH if ocl.get_device_properties(device).style == "cpu" else 1
