"""From an ONNX graph to a torch.fx graph."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy
import onnx
import torch
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto
from torch import fx

from . import constants, control, host, layers, registry, schemas, types
from .errors import ModelError, UnsupportedError
from .graph import Session
from .module import OnnxModule
from .protos import dense_of, domain_of, element_of_type, ranks_of, resolved, statistics_of, without
from .registry import widened
from .sizes import SizeBuilder
from .values import Value, to_python

# Graphs are read by control.py; types say nothing that values do not.
_NOT_VALUES = {AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS}
# A function may call functions; this many levels are a cycle.
_DEEPEST_CALL = 64
# Larger results of constant nodes are computed when the net runs.
_LARGEST_FOLD = 2**28


class Scope:
    """Names that nodes of one graph or function see."""

    attributes: dict[str, AttributeProto]

    def __init__(
        self,
        builder: "Builder",
        imports: dict[str, int],
        parent: "Scope | None" = None,
        attributes: dict[str, AttributeProto] | None = None,
    ) -> None:
        self.builder, self.imports, self.parent = builder, imports, parent
        inherited: dict[str, AttributeProto] = parent.attributes if parent else {}
        self.attributes = inherited if attributes is None else attributes
        self.names: dict[str, Value] = {}

    def find(self, name: str) -> Value | None:
        """The value called `name`, captured into this scope's graph if an outer graph has it."""
        if name in self.names:
            return self.names[name]
        if self.parent is None:
            return None
        value = self.parent.find(name)
        if value is not None and self.parent.builder is not self.builder:
            value = self.builder.capture(value)
        return value


class Builder(SizeBuilder):
    """The importer of one graph: the main one, or one inside a node."""

    def graph_inputs(self, graph: GraphProto, scope: Scope) -> list[str]:
        """Makes the placeholders and constants of the main graph; returns the names of the inputs."""
        given = {proto.name for proto in graph.initializer} | {p.values.name for p in graph.sparse_initializer}
        names = []
        for info in sorted(graph.input, key=lambda info: info.name in given):
            if info.name in given and self.session.ir_version < 4:
                continue
            if not info.name or info.name in scope.names:
                raise ModelError(f"the graph has two inputs called '{info.name}'")
            names.append(info.name)
            node = self.placeholder(info.name, optional=info.name in given)
            scope.names[info.name] = Value(info.name, element_of_type(info.type), node=node)
        return names

    def initializers(self, graph: GraphProto, scope: Scope) -> None:
        """Makes the values of a graph's initializers; ones that are inputs as well may be replaced by the caller."""
        statistics = statistics_of(graph)
        for proto in itertools.chain(graph.initializer, graph.sparse_initializer):
            sparse = isinstance(proto, onnx.SparseTensorProto)
            name = proto.values.name if sparse else proto.name
            self.place = f"initializer '{name}'"
            folder = self.session.folder
            tensor = dense_of(proto, folder) if sparse else constants.read_tensor(proto, folder)
            value = Value(name, proto.values.data_type if sparse else proto.data_type)
            is_float = isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())
            value.constant = tensor
            value.parameter = is_float and tensor.numel() > 1 and name not in statistics and tensor.dtype.itemsize > 1
            value.__post_init__()
            if name in scope.names:  # an input with a default
                replaced = scope.names[name]
                replaced.node = self.call(_or_default, (replaced.node, self.tensor(value)), name)
            else:
                scope.names[name] = value

    def nodes(self, nodes: Sequence[NodeProto], scope: Scope) -> None:
        """Imports nodes in their order."""
        for node in nodes:
            opset = scope.imports.get(domain_of(node.domain))
            label = f"'{node.name}' " if node.name else f"of '{node.output[0]}' " if node.output else ""
            self.place = f"node {label}({node.domain + '.' if node.domain else ''}{node.op_type}, opset {opset})"
            place = self.place
            try:
                results = self.node(node, scope)
            except ModelError as error:
                raise error.at(place) from error.__cause__
            except RecursionError as error:
                raise ModelError("graphs are nested too deeply").at(place) from error
            except Exception as error:
                raise ModelError(f"{type(error).__name__}: {error}").at(place) from error
            for name, value in zip(node.output, results):
                if not name:
                    continue
                if name in scope.names:
                    raise ModelError(f"a value called '{name}' exists already").at(place)
                value.name = value.name or name
                scope.names[name] = value
                if value.constant is None and value.node is None and value.later is None and value.host is None:
                    raise ModelError(f"it has no output {list(node.output).index(name)} ('{name}')").at(place)

    def node(self, node: NodeProto, scope: Scope) -> list[Value]:
        """Imports one node; returns the values of its outputs."""
        domain = domain_of(node.domain)
        function = self.session.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self.inline(function, node, scope)
        opset = scope.imports.get(domain)
        if opset is None:
            raise ModelError(f"the model imports no opset of the domain '{domain}'")
        inputs = [self._input(name, index, scope) for index, name in enumerate(node.input)]
        self.session.operators[node.op_type] = self.session.operators.get(node.op_type, 0) + 1
        if domain == "" and node.op_type in control.OPERATORS:
            return control.OPERATORS[node.op_type](self, node, inputs, scope)
        if domain == "" and node.op_type == "Identity" and inputs and inputs[0] is not None:
            return [inputs[0]]
        attributes = self.attributes(node, scope)
        schema = schemas.schema_of(domain, node.op_type, opset)
        known = [value.element if value else 0 for value in inputs]
        _check_counts(schema, node)
        row = registry.find(domain, node.op_type, opset)
        if row is None:
            body = schemas.function_body(schema, resolved(node, scope.attributes), opset, known)
            if body is None:
                raise UnsupportedError(self._unknown(domain, node.op_type, opset, schema))
            return self.inline(body, node, scope)
        elements = schemas.result_elements(schema, node, attributes, known)
        return self.emit(row, node, inputs, attributes, elements)

    def _unknown(self, domain: str, name: str, opset: int, schema: Any) -> str:
        newest = schemas.newest_opset(domain)
        if schema is None and opset <= newest:
            return f"there is no operator '{name}' in opset {opset} of the domain '{domain or 'ai.onnx'}'"
        if schema is None:
            return f"opset {opset} of '{domain or 'ai.onnx'}' is newer than the installed onnx package knows ({newest})"
        return "this operator is not supported"

    def _input(self, name: str, index: int, scope: Scope) -> Value | None:
        if not name:
            return None
        value = scope.find(name)
        if value is None:
            raise ModelError(
                f"its input {index} ('{name}') is not computed before it: the graph has a cycle, is not sorted or "
                f"lacks a node"
            )
        return value

    def emit(
        self,
        row: registry.Row,
        node: NodeProto,
        inputs: list[Value | None],
        attributes: dict[str, Any],
        elements: list[int],
    ) -> list[Value]:
        """Emits the call of a row, or evaluates it if everything is known."""
        unknown = row.unknown(attributes)
        if unknown:
            raise UnsupportedError(f"attribute '{unknown[0]}' is not supported")
        if row.limit is not None and len(inputs) > row.limit:
            raise ModelError(f"it has {len(inputs)} inputs, the operator takes at most {row.limit}")
        present = [value for value in inputs if value is not None]
        folds = not row.random and all(value.is_constant() for value in present)
        if row.operator in host.RULES and row.domain == "" and not folds:
            value = self.on_host(row, node, inputs, attributes, elements)
            if value is not None:
                return [value]
        if row.operator in ("Shape", "Size") and row.domain == "" and not folds and present:
            return [self.shape(row.operator, node, present[0], attributes)]
        if folds:
            folded = self._fold(row, node, inputs, attributes, elements)
            if folded is not None:
                return folded
        layer = layers.emit(self, row, node, inputs, attributes)
        call = layer if layer is not None else self._call(row, node, inputs, attributes)
        return self.results(call, node, elements)

    def _call(
        self, row: registry.Row, node: NodeProto, inputs: list[Value | None], attributes: dict[str, Any]
    ) -> fx.Node:
        named: dict[str, Any] = {key: value for key, value in attributes.items() if key not in registry.IGNORED}
        for key, value in named.items():
            if isinstance(value, (torch.Tensor, numpy.ndarray)):
                named[key] = self.tensor(Value(f"{node.name or node.op_type}_{key}", constant=value))
        values: dict[str, Any] = {
            "outputs": len(node.output),
            "types": [value.element if value else 0 for value in inputs],
        }
        for key in row.special:
            named[key] = self.anchor() if key == "anchor" else values[key]
        others = [value is not None and value.extent is None for value in inputs]
        arguments: list[Any] = []
        for index, value in enumerate(inputs):
            if value is None:
                arguments.append(None)
            elif index in row.host or (
                index in row.numbers and value.extent is not None and value.extent.rank == 0 and any(others)
            ):
                arguments.append(self.number(value))
            else:
                arguments.append(self.tensor(value))
        return self.call(
            _function(row, inputs), arguments, node.output[0] if len(node.output) == 1 else node.op_type, named
        )

    def _fold(
        self,
        row: registry.Row,
        node: NodeProto,
        inputs: list[Value | None],
        attributes: dict[str, Any],
        elements: list[int],
    ) -> list[Value] | None:
        """Results of a node whose inputs are constants; None where it must be left to the run."""
        arguments = [
            None if value is None else to_python(value.constant) if index in row.host else value.constant
            for index, value in enumerate(inputs)
        ]
        named = {key: value for key, value in attributes.items() if key not in registry.IGNORED}
        known = {
            "outputs": len(node.output),
            "types": [value.element if value else 0 for value in inputs],
            "anchor": torch.empty(0),
        }
        named |= {key: known[key] for key in row.special}
        if row.operator == "ConstantOfShape" and math.prod(arguments[0] or ()) > _LARGEST_FOLD:
            return None
        with torch.no_grad():
            results = _function(row, inputs)(*arguments, **named)
        if len(node.output) == 1 and not isinstance(results, tuple):
            results = (results,)
        if not isinstance(results, tuple) or any(
            result is None or isinstance(result, (list, dict)) for result in results
        ):
            return None
        return [Value(name, elements[index], constant=results[index]) for index, name in enumerate(node.output)]

    def attributes(self, node: NodeProto, scope: Scope) -> dict[str, Any]:
        """Attributes of a node by name. Graphs are left out: control.py reads them itself."""
        found: dict[str, Any] = {}
        for proto in resolved(node, scope.attributes).attribute:
            if proto.type not in _NOT_VALUES:
                found[proto.name] = self.attribute(proto)
        return found

    def attribute(self, proto: AttributeProto) -> Any:
        """A number, text, list or tensor; tensors of strings are arrays."""
        value = onnx.helper.get_attribute_value(proto)
        if proto.type == AttributeProto.TENSOR:
            return constants.read_tensor(value, self.session.folder)
        if proto.type == AttributeProto.SPARSE_TENSOR:
            return dense_of(value, self.session.folder)
        if proto.type == AttributeProto.STRING:
            return value.decode("utf-8", "replace")
        if proto.type == AttributeProto.STRINGS:
            return [text.decode("utf-8", "replace") for text in value]
        return list(value) if proto.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value

    def inline(self, function: FunctionProto, node: NodeProto, scope: Scope) -> list[Value]:
        """The body of a function, with the node's inputs and attributes, in this graph."""
        if self.session.depth >= _DEEPEST_CALL:
            raise ModelError(f"functions call each other more than {_DEEPEST_CALL} levels deep")
        own = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        imports = {"": schemas.newest_opset(), **scope.imports, **own}
        given = {proto.name: proto for proto in resolved(node, scope.attributes).attribute}
        given = {proto.name: proto for proto in function.attribute_proto} | given
        inner = Scope(self, imports, None, given)
        for index, name in enumerate(function.input):
            value = self._input(node.input[index], index, scope) if index < len(node.input) else None
            if value is not None:
                inner.names[name] = value
        optional = set(function.input) - set(inner.names)
        self.session.depth += 1
        try:
            self.nodes([without(part, optional) for part in function.node], inner)
        finally:
            self.session.depth -= 1
        results = []
        for name in list(function.output)[: len(node.output)]:
            value = inner.find(name)
            if value is None:
                if name in optional:
                    results.append(Value(""))
                    continue
                raise ModelError(f"function '{function.name}' does not compute its output '{name}'")
            results.append(value)
        return results


def _function(row: registry.Row, inputs: Sequence[Value | None]) -> Any:
    """The row's function; PyTorch's own ones know wide unsigned integers on devices only."""
    wide = any(value is not None and value.element in (types.UINT16, types.UINT32, types.UINT64) for value in inputs)
    return widened(row.function) if wide and not row.special and row.attributes == frozenset() else row.function


def _check_counts(schema: Any, node: NodeProto) -> None:
    if schema is None:
        return
    for kind, count, least, most in (
        ("input", len(node.input), schema.min_input, schema.max_input),
        ("output", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            allowed = str(least) if least == most else f"{least} to {most}" if most < 2**31 - 1 else f"{least} or more"
            raise ModelError(f"it has {count} {kind}s, the operator takes {allowed}")


def _or_default(given: Any, default: torch.Tensor) -> Any:
    return default if given is None else given


def build(source: Any) -> OnnxModule:
    """The module of a model, on the CPU. `meta["onnx"]` describes inputs, outputs and counts."""
    model, folder = constants.read_model(source)
    session = Session(model, folder)
    builder = Builder(session)
    builder.ranks = ranks_of(model)
    scope = Scope(builder, session.imports)
    graph = model.graph
    names = builder.graph_inputs(graph, scope)
    builder.initializers(graph, scope)
    builder.nodes(graph.node, scope)
    outputs: list[Any] = []
    for info in graph.output:
        value = scope.find(info.name)
        if value is None:
            raise ModelError(f"output '{info.name}' of the graph is not computed by any node")
        outputs.append(builder.tensor(value))
    if not outputs:
        raise ModelError("the graph has no outputs")
    module = builder.finish(outputs, graph.name or "OnnxModule")
    declared = {info.name: info.type for info in graph.input}
    module.meta["onnx"] = {
        "inputs": [(name, element_of_type(declared[name])) for name in names],
        "outputs": [(info.name, element_of_type(info.type)) for info in graph.output],
        "types": {name: declared[name].SerializeToString() for name in names},
        "arguments": list(builder.arguments),
        "waits": session.waits,
        "operators": dict(session.operators),
        "opsets": dict(session.imports),
    }
    return module
