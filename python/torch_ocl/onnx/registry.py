"""The table of operators: one row for each operator and opset version that changed its meaning.

A row is a function of the node's inputs (positional; None where absent) and attributes (by keyword, with ONNX's
defaults). It is called when the net runs, with tensors, and issues ATen operators. Special parameters are filled in by
the importer where the function has them:

    outputs: int            how many outputs the node has
    types: list[int]        ONNX's element types of the inputs, 0 where unknown
    anchor: Tensor          a tensor on the device of the module, for operators that make tensors from nothing
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from . import rows
from .types import WIDE_UNSIGNED

Function = Any  # a Callable[..., Any]; mypy joins different functions of PyTorch to `function`
F = TypeVar("F", bound=Function)

SPECIAL = ("outputs", "types", "anchor")
# Attributes of opsets below 7 that only say how a framework of that time may save memory.
IGNORED = ("consumed_inputs", "is_test")


@dataclass(frozen=True)
class Row:
    """How one operator is run from opset `since` on."""

    domain: str
    operator: str
    since: int
    function: Function
    host: tuple[int, ...] = ()  # inputs that must be Python numbers or lists: sizes, axes, counts
    numbers: tuple[int, ...] = ()  # inputs that may be Python numbers instead of tensors of rank 0
    random: bool = False  # a result of constants is not a constant
    family: str = ""  # the file, for the documentation
    special: frozenset[str] = field(default_factory=frozenset)
    attributes: frozenset[str] | None = None  # names that it takes; None: any
    limit: int | None = None  # most inputs; None: any number

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Attributes that the row would not see."""
        if self.attributes is None:
            return []
        return sorted(set(names) - self.attributes - set(IGNORED))


TABLE: dict[tuple[str, str], list[Row]] = {}


def add(
    operator: str,
    since: int,
    function: Function,
    *,
    domain: str = "",
    host: tuple[int, ...] = (),
    numbers: tuple[int, ...] = (),
    random: bool = False,
    family: str = "",
) -> None:
    """Adds a row. `function` may be an ATen function without attributes."""
    special: frozenset[str] = frozenset()
    attributes: frozenset[str] | None = frozenset()
    limit: int | None = None
    if inspect.isfunction(function) and function.__module__.startswith("torch_ocl.onnx."):
        parameters = inspect.signature(function).parameters.values()
        keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        special = frozenset(keywords & set(SPECIAL))
        anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
        attributes = None if anything else frozenset(keywords - special)
        if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            limit = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        family = family or function.__module__.rpartition(".")[2]
        function = published(function, f"{operator}_{since}" if not domain else f"{domain}.{operator}_{since}")
    versions = TABLE.setdefault((domain, operator), [])
    versions.append(Row(domain, operator, since, function, host, numbers, random, family, special, attributes, limit))
    versions.sort(key=lambda row: row.since)


def published(function: Function, name: str) -> Function:
    """The function as a member of the module rows."""
    name = name.replace(".", "_")

    function.__module__, function.__name__, function.__qualname__ = rows.__name__, name, name
    setattr(rows, name, function)
    return function


def row(operator: str, since: int = 1, **options: Any) -> Callable[[F], F]:
    """Decorator: the function below is the row of `operator` from opset `since` on."""

    def register(function: F) -> F:
        add(operator, since, function, **options)
        return function

    return register


def find(domain: str, operator: str, opset: int) -> Row | None:
    """The newest row that is not above `opset`."""
    best = None
    for candidate in TABLE.get((domain, operator), ()):
        if candidate.since <= opset:
            best = candidate
    return best


@functools.cache
def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's CPU has few kernels for uint16, uint32 and uint64: there they are computed as int64 (modulo 2^64)."""

    def compute(*operands: Any, **attributes: Any) -> Any:
        narrow = next((x.dtype for x in operands if isinstance(x, torch.Tensor) and x.dtype in WIDE_UNSIGNED), None)
        if narrow is None or any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in operands):
            return function(*operands, **attributes)
        wide = [x.to(torch.int64) if isinstance(x, torch.Tensor) and x.dtype in WIDE_UNSIGNED else x for x in operands]
        result = function(*wide, **attributes)
        return result.to(narrow) if isinstance(result, torch.Tensor) and result.dtype == torch.int64 else result

    result: Callable[..., Any] = published(
        compute, f"wide_{function.__module__}_{function.__name__}".replace("<", "").replace(">", "")
    )
    return result
