"""A graph of generated kernels alone becomes one call of C++ (csrc/torch/python/generated_graph.cpp).

Small graphs cost what Python costs: checks of inputs, allocations and launches are a function each. Where the text that
Inductor wrote for a graph has nothing else in it, and no size that is not a number, it is read back, and the same steps
are handed to C++. The text stays behind it, for inputs that are not as expected.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from torch._inductor.codegen.common import DeferredLineBase


class _NotPlain(Exception):
    """The graph does something that only Python can do."""


class DirectLine(DeferredLineBase):
    """A line of the module that is there when the whole graph is plain. `wrapper.direct_call()` gives the arguments of
    GraphKernels.graph, or None; {} stands for them."""

    def __init__(self, wrapper: Any, line: str) -> None:
        super().__init__(line)
        self.wrapper = wrapper

    def __call__(self) -> str | None:
        arguments = self.wrapper.direct_call()
        return None if arguments is None else self.line.replace("{}", arguments)

    def _new_line(self, line: str) -> "DirectLine":
        return DirectLine(self.wrapper, line)


class _Steps:
    """The statements of a graph, read one by one."""

    def __init__(self, inputs: Sequence[str], layouts: Mapping[str, tuple[str, str]], device: int) -> None:
        self.slots = {name: i for i, name in enumerate(inputs)}
        self.count = len(inputs)
        self.known = set(layouts)
        self.device = device
        self.lines: list[str] = []
        self.outputs: list[int] | None = None

    def slot(self, node: ast.expr) -> int:
        """Of a tensor that is there; a view of one gets a slot of its own."""
        if isinstance(node, ast.Call):
            return self.view(node, self.new(""))
        if not isinstance(node, ast.Name) or node.id not in self.known:
            raise _NotPlain
        return self.slots[node.id]

    def new(self, name: str) -> int:
        self.count += 1
        if name:
            self.slots[name] = self.count - 1
            self.known.add(name)
        return self.count - 1

    def view(self, node: ast.Call, slot: int) -> int:
        if _function(node) != "reinterpret_tensor" or len(node.args) != 4:
            raise _NotPlain
        of, (size, stride, offset) = self.slot(node.args[0]), [_number(n) for n in node.args[1:]]
        self.lines.append(f"('view', {slot}, {of}, {size}, {stride}, {offset})")
        return slot

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.assign(node.targets[0].id, node.value)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if not isinstance(target, ast.Name) or target.id not in self.slots:
                    raise _NotPlain
                self.lines.append(f"('drop', {self.slots[target.id]})")
                self.known.discard(target.id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call(node.value)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            self.outputs = [-1 if _is_none(value) else self.slot(value) for value in node.value.elts]
        else:
            raise _NotPlain

    def assign(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name):
            of = self.slot(value)
            self.lines.append(f"('same', {self.new(name)}, {of})")
        elif isinstance(value, ast.Call) and _function(value) == "empty_strided_ocl":
            size, stride, device = (_number(value.args[i]) for i in (0, 1, 3))
            if device != self.device:
                raise _NotPlain
            self.lines.append(f"('new', {self.new(name)}, {size}, {stride}, {ast.unparse(value.args[2])})")
        elif isinstance(value, ast.Call):
            self.view(value, self.count)
            self.new(name)
        else:
            raise _NotPlain

    def call(self, node: ast.Call) -> None:
        name = _function(node)
        if name == "assert_input":  # done before the first step, from `layouts`
            return
        if not name.startswith(("ocl_pointwise_", "ocl_reduction_")):
            raise _NotPlain
        *arguments, rows, columns = node.args
        values = [self.slot(a) if isinstance(a, (ast.Name, ast.Call)) else _number(a) for a in arguments]
        text = "".join(f"{value!r}, " for value in values)
        self.lines.append(f"('call', {name}, ({text}), {_number(rows)}, {_number(columns)})")


def _function(node: ast.Call) -> str:
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise _NotPlain
    return node.func.id


def _number(node: ast.expr) -> Any:
    """A number or a tuple of numbers."""
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _NotPlain from error


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def graph_arguments(
    inputs: Sequence[str], layouts: Mapping[str, tuple[str, str]], body: str, device: int
) -> str | None:
    """The arguments of GraphKernels.graph as text, of a graph with this body, or None when it is not plain.
    `layouts`: sizes and strides, as text, of the inputs that are checked."""
    steps = _Steps(inputs, layouts, device)
    try:
        checked = [
            f"({', '.join(repr(_number(ast.parse(text, mode='eval').body)) for text in layouts[name])})"
            if name in layouts
            else "None"
            for name in inputs
        ]
        for node in ast.parse(body).body:
            steps.statement(node)
    except _NotPlain:
        return None
    if steps.outputs is None or not any(line.startswith("('call'") for line in steps.lines):
        return None
    rows = (f"({', '.join(row)},)" if row else "()" for row in (checked, steps.lines))
    return f"{steps.count}, {', '.join(rows)}, {steps.outputs}"
