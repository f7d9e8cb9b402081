"""Operators that hold graphs: If, Loop, Scan, SequenceMap.

Each graph inside becomes a module of its own. Values of outer graphs that it reads are its last inputs.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from onnx import GraphProto, NodeProto
from torch import fx, nn

from . import registry, types
from .errors import ModelError
from .host import Extent
from .module import OnnxModule
from .protos import element_of_type
from .values import Value

if TYPE_CHECKING:
    from .importer import Builder, Scope

Emitter = Callable[["Builder", NodeProto, list[Value | None], "Scope"], list[Value]]


class IfModule(nn.Module):
    """One of two graphs, by a condition that is read on the host."""

    def __init__(self, then_branch: nn.Module, else_branch: nn.Module) -> None:
        super().__init__()
        self.then_branch, self.else_branch = then_branch, else_branch

    def forward(self, condition: Any, then_inputs: Sequence[Any], else_inputs: Sequence[Any]) -> Any:
        """The outputs of the branch."""
        if isinstance(condition, torch.Tensor) and torch.compiler.is_compiling():
            count = len(then_inputs)
            return torch.cond(
                condition.reshape(()),
                lambda *inputs: self.then_branch(*inputs[:count]),
                lambda *inputs: self.else_branch(*inputs[count:]),
                (*then_inputs, *else_inputs),
            )
        return self.then_branch(*then_inputs) if condition else self.else_branch(*else_inputs)


class LoopModule(nn.Module):
    """The operator Loop. `scanned` are shape and type of scan outputs that no iteration may compute."""

    def __init__(self, body: nn.Module, scanned: list[tuple[list[int], torch.dtype]]) -> None:
        super().__init__()
        self.body, self.scanned = body, scanned

    def forward(self, count: Any, condition: Any, states: Sequence[Any], captured: Sequence[Any], anchor: Any) -> Any:
        """The last states and the stacked scan outputs."""
        collected: list[list[Any]] = [[] for _ in self.scanned]
        iteration = 0
        states = list(states)
        while (count is None or iteration < count) and bool(condition):
            condition, *results = self.body(iteration, True, *states, *captured)
            states, scanned = results[: len(states)], results[len(states) :]
            for values, value in zip(collected, scanned):
                values.append(value)
            iteration += 1
        return (*states, *(_stack(values, *empty, anchor) for values, empty in zip(collected, self.scanned)))


def _stack(
    values: list[Any], shape: list[int], dtype: torch.dtype, anchor: torch.Tensor, axis: int = 0
) -> torch.Tensor:
    if values:
        return torch.stack(values, axis)
    shape = list(shape)
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return torch.empty(shape, dtype=dtype, device=anchor.device)


class ScanModule(nn.Module):
    """The operator Scan from opset 9 on."""

    def __init__(
        self, body: nn.Module, scans: int, scanned: list[tuple[list[int], torch.dtype]], options: dict[str, Any]
    ) -> None:
        super().__init__()
        self.body, self.scans, self.scanned = body, scans, scanned
        self.input_axes = options.get("scan_input_axes") or [0] * scans
        self.input_directions = options.get("scan_input_directions") or [0] * scans
        self.output_axes = options.get("scan_output_axes") or [0] * len(scanned)
        self.output_directions = options.get("scan_output_directions") or [0] * len(scanned)

    def forward(self, inputs: Sequence[Any], captured: Sequence[Any], anchor: Any) -> Any:
        """The last states and the stacked scan outputs."""
        states, sequences = list(inputs[: -self.scans]), inputs[-self.scans :]
        slices = [sequence.unbind(axis) for sequence, axis in zip(sequences, self.input_axes)]
        slices = [part[::-1] if reverse else part for part, reverse in zip(slices, self.input_directions)]
        if len({len(part) for part in slices}) > 1:
            raise ValueError(f"the scan inputs have {[len(part) for part in slices]} elements")
        collected: list[list[Any]] = [[] for _ in self.scanned]
        for parts in zip(*slices):
            results = self.body(*states, *parts, *captured)
            states = list(results[: len(states)])
            for values, value in zip(collected, results[len(states) :]):
                values.append(value)
        collected = [values[::-1] if reverse else values for values, reverse in zip(collected, self.output_directions)]
        stacked = [_stack(v, *empty, anchor, axis) for v, empty, axis in zip(collected, self.scanned, self.output_axes)]
        return (*states, *stacked)


class BatchedScanModule(nn.Module):
    """The operator Scan of opset 8: everything has a batch axis in front, sequences have lengths."""

    def __init__(self, scan: ScanModule) -> None:
        super().__init__()
        self.scan = scan

    def forward(self, lengths: Any, inputs: Sequence[Any], captured: Sequence[Any], anchor: Any) -> Any:
        """The results of all batches, padded by zeros."""
        scan, rows = self.scan, []
        states = len(inputs) - scan.scans
        for index in range(inputs[0].shape[0]):
            parts = [value[index] for value in inputs]
            full = parts[-1].shape[0]
            if lengths is not None:
                parts = parts[:states] + [part[: lengths[index]] for part in parts[states:]]
            results = list(scan(parts, captured, anchor))
            for place in range(states, len(results)):
                missing = full - results[place].shape[0]
                rest = results[place].new_zeros((missing, *results[place].shape[1:]))
                results[place] = torch.cat([results[place], rest])
            rows.append(results)
        return tuple(torch.stack(column) for column in zip(*rows))


class MapModule(nn.Module):
    """The operator SequenceMap."""

    def __init__(self, body: nn.Module, outputs: int) -> None:
        super().__init__()
        self.body, self.outputs = body, outputs

    def forward(self, inputs: Sequence[Any], captured: Sequence[Any]) -> Any:
        """One sequence for each output of the body."""
        results: tuple[list[Any], ...] = tuple([] for _ in range(self.outputs))
        for index in range(len(inputs[0])):
            parts = [value[index] if isinstance(value, (list, tuple)) else value for value in inputs]
            for sequence, value in zip(results, self.body(*parts, *captured)):
                sequence.append(value)
        return results if self.outputs > 1 else results[0]


def _graph(node: NodeProto, name: str) -> GraphProto:
    for proto in node.attribute:
        if proto.name == name:
            return proto.g
    raise ModelError(f"it has no graph '{name}'")


def _sub(
    builder: "Builder",
    graph: GraphProto,
    scope: "Scope",
    inputs: Sequence[Value],
    hosted: int = 0,
    condition: bool = False,
) -> tuple[OnnxModule, list[tuple[Value, bool]], "Builder", list[Value]]:
    """The module of a graph inside, what it captures, and its output values.

    `inputs` give element types; the first `hosted` inputs arrive as numbers. With `condition` the first output may
    leave as a number.
    """
    from .importer import Builder, Scope

    inner = Builder(builder.session, builder)
    names = Scope(inner, scope.imports, scope)
    given = {proto.name for proto in graph.initializer}
    formal = [info for info in graph.input if info.name not in given]
    if len(formal) != len(inputs):
        raise ModelError(f"its graph '{graph.name}' has {len(formal)} inputs, it gets {len(inputs)}")
    for index, (info, value) in enumerate(zip(formal, inputs)):
        node = inner.placeholder(info.name)
        element = element_of_type(info.type) or value.element
        if index < hosted:
            names.names[info.name] = Value(info.name, element, host=node, extent=Extent(0))
        else:
            names.names[info.name] = Value(info.name, element, node=node)
    inner.initializers(graph, names)
    inner.nodes(graph.node, names)
    values, outputs = [], []
    for index, info in enumerate(graph.output):
        found = names.find(info.name)
        if found is None:
            raise ModelError(f"output '{info.name}' of its graph '{graph.name}' is not computed by any node")
        values.append(found)
        host_form = condition and index == 0 and found.extent is not None
        outputs.append(inner.number(found) if host_form else inner.tensor(found))
        if condition and index == 0 and not host_form:
            builder.session.waits += 1
    return inner.finish(outputs, graph.name or "Graph"), inner.captures, inner, values


def _captured(builder: "Builder", captures: Sequence[tuple[Value, bool]]) -> tuple[Any, ...]:
    return tuple(builder.number(value) if as_host else builder.tensor(value) for value, as_host in captures)


def _name(builder: "Builder", kind: str) -> str:
    return f"{kind}_{next(builder.session.numbers)}"


def _emit_if(builder: "Builder", node: NodeProto, inputs: list[Value | None], scope: "Scope") -> list[Value]:
    from .importer import Scope

    condition = inputs[0]
    if condition is None:
        raise ModelError("its condition is absent")
    known = condition.known()
    if known is not None:  # the branch becomes part of this graph
        graph = _graph(node, "then_branch" if (known[0] if isinstance(known, list) else known) else "else_branch")
        inner = Scope(builder, scope.imports, scope)
        builder.initializers(graph, inner)
        builder.nodes(graph.node, inner)
        found = [inner.find(info.name) for info in graph.output]
        if any(value is None for value in found):
            raise ModelError(f"its graph '{graph.name}' does not compute all outputs")
        return [value for value in found if value is not None]
    branches = [_sub(builder, _graph(node, name), scope, ()) for name in ("then_branch", "else_branch")]
    if condition.extent is not None and condition.extent.rank == 0:
        reading = builder.number(condition)
    else:
        reading = builder.tensor(condition)
        builder.session.waits += 1
    arguments = [reading, *(_captured(builder, captures) for _, captures, _, _ in branches)]
    call = builder.call_module(_name(builder, "if"), IfModule(branches[0][0], branches[1][0]), arguments)
    elements = [value.element for value in branches[0][3]]
    return _unpack(builder, call, node, elements)


def _unpack(builder: "Builder", call: fx.Node, node: NodeProto, elements: Sequence[int]) -> list[Value]:
    """Values of a module that returns a tuple."""
    if len(elements) < len(node.output):
        raise ModelError(f"it has {len(node.output)} outputs, its graph gives {len(elements)}")
    return [
        Value(name, elements[index], node=builder.call(operator.getitem, (call, index), name))
        for index, name in enumerate(node.output)
    ]


def _empty_of(graph: GraphProto, skip: int, values: Sequence[Value]) -> list[tuple[list[int], torch.dtype]]:
    """Shape and type of scan outputs; sizes that are not declared count as 0."""
    found = []
    for info, value in list(zip(graph.output, values))[skip:]:
        tensor = info.type.tensor_type
        element = tensor.elem_type or value.element or types.FLOAT
        dtype = torch.uint8 if element == types.STRING else types.dtype_of(element)
        found.append(([dim.dim_value for dim in tensor.shape.dim], dtype))
    return found


def _emit_loop(builder: "Builder", node: NodeProto, inputs: list[Value | None], scope: "Scope") -> list[Value]:
    graph = _graph(node, "body")
    count, condition = inputs[0], inputs[1] if len(inputs) > 1 else None
    states = [value if value is not None else Value("") for value in inputs[2:]]
    heads = [Value("iteration", types.INT64), Value("condition", types.BOOL)]
    module, captures, _, values = _sub(builder, graph, scope, [*heads, *states], hosted=2, condition=True)
    scanned = _empty_of(graph, 1 + len(states), values)
    # A count of shape [1] is common.
    limit = None if count is None else _scalar(builder, count)
    going = True if condition is None else _scalar(builder, condition)
    arguments = (
        limit,
        going,
        [builder.tensor(state) for state in states],
        _captured(builder, captures),
        builder.anchor(),
    )
    call = builder.call_module(_name(builder, "loop"), LoopModule(module, scanned), arguments)
    return _unpack(builder, call, node, [value.element for value in values[1:]])


def _scalar(builder: "Builder", value: Value) -> Any:
    known = value.known()
    if known is not None:
        return known[0] if isinstance(known, list) else known
    return builder.call(_first, (builder.number(value),), value.name)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def _emit_scan(builder: "Builder", node: NodeProto, inputs: list[Value | None], scope: "Scope") -> list[Value]:
    graph = _graph(node, "body")
    options = builder.attributes(node, scope)
    scans = options.get("num_scan_inputs", 0)
    batched = scope.imports.get("", 1) < 9
    lengths = inputs[0] if batched else None
    values = [value for value in (inputs[1:] if batched else inputs) if value is not None]
    if not 0 < scans <= len(values):
        raise ModelError(f"num_scan_inputs is {scans}, it has {len(values)} inputs")
    module, captures, _, results = _sub(builder, graph, scope, values)
    if batched and "directions" in options:
        options["scan_input_directions"] = options["directions"]
    scan = ScanModule(module, scans, _empty_of(graph, len(values) - scans, results), options)
    arguments: list[Any] = [[builder.tensor(value) for value in values], _captured(builder, captures), builder.anchor()]
    if batched:
        arguments.insert(0, None if lengths is None else builder.number(lengths))
    call = builder.call_module(_name(builder, "scan"), BatchedScanModule(scan) if batched else scan, arguments)
    return _unpack(builder, call, node, [value.element for value in results])


def _emit_map(builder: "Builder", node: NodeProto, inputs: list[Value | None], scope: "Scope") -> list[Value]:
    values = [value for value in inputs if value is not None]
    module, captures, _, results = _sub(builder, _graph(node, "body"), scope, values)
    arguments = ([builder.tensor(value) for value in values], _captured(builder, captures))
    call = builder.call_module(_name(builder, "map"), MapModule(module, len(results)), arguments)
    return builder.results(call, node, [value.element for value in results])


OPERATORS: dict[str, Emitter] = {
    "If": _emit_if,
    "Loop": _emit_loop,
    "Scan": _emit_scan,
    "SequenceMap": _emit_map,
}


def _unreachable(*inputs: Any) -> Any:
    raise AssertionError("the importer emits these itself")


for _operator in OPERATORS:
    registry.add(_operator, 1, _unreachable, family="control")
