"""The module that an imported model is."""

import dataclasses
import types as python_types
from typing import Any

import torch
from torch import fx

from .errors import ModelError

# Exceptions that a row of the table or an ATen operator raises for bad inputs. While tracing, torch.export and
# torch.compile need to see their own exceptions as they are.
_OF_INPUTS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    NotImplementedError,
    OverflowError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)


@dataclasses.dataclass(frozen=True)
class _Reference:
    """Stands for a node in a pickled graph."""

    name: str


def _mapped(arguments: Any, node: fx.Node) -> Any:
    map_arguments: Any = fx.node.map_arg  # typed for arguments of nodes only
    return map_arguments(arguments, lambda argument: _Reference(argument.name))


def _resolved(argument: Any, nodes: dict[str, fx.Node]) -> Any:
    if isinstance(argument, _Reference):
        return nodes[argument.name]
    if isinstance(argument, (list, tuple)):
        return type(argument)(_resolved(part, nodes) for part in argument)
    if isinstance(argument, dict):
        return {key: _resolved(part, nodes) for key, part in argument.items()}
    return argument


def _rebuilt(body: dict[str, Any], rows: list[Any], name: str) -> "OnnxModule":
    """The module whose parts __reduce__ gives."""
    root, graph = torch.nn.Module(), fx.Graph()
    nodes: dict[str, fx.Node] = {}
    root.__dict__.update(body)
    for operation, target, arguments, named, label, kind, meta in rows:
        inputs = _resolved(arguments, nodes), _resolved(named, nodes)
        nodes[label] = graph.create_node(operation, target, *inputs, label, kind)
        nodes[label].meta.update(meta)
    module = OnnxModule(root, graph, name)
    module.meta.update(body.get("meta", {}))
    module.training = body["training"]
    return module


class OnnxModule(fx.GraphModule):
    """An imported graph. Errors of its operators name the ONNX node that they belong to."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._hide_anchor()

    def __deepcopy__(self, memo: Any) -> Any:
        copy: Any = fx.GraphModule.__deepcopy__(self, memo)
        copy._hide_anchor()
        return copy

    def _hide_anchor(self) -> None:
        """The tensor that tells the device is no part of the state."""
        if "_anchor" in self._buffers:
            self._non_persistent_buffers_set.add("_anchor")

    def __reduce__(self) -> Any:
        """fx would trace the functions of the table again; the graph is pickled as its nodes instead."""
        body = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        nodes = [
            (node.op, node.target, *_mapped((node.args, node.kwargs), node), node.name, node.type, dict(node.meta))
            for node in self.graph.nodes
        ]
        return _rebuilt, (body, nodes, type(self).__name__)

    def __reduce_deploy__(self, importer: Any) -> Any:
        raise NotImplementedError("torch.package does not know imported ONNX models; save them with torch.save")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return super().__call__(*inputs, **named)
        try:
            return super().__call__(*inputs, **named)
        except (ModelError, torch.OutOfMemoryError):
            raise
        except _OF_INPUTS as error:
            if type(error).__module__.startswith("torch.") and not isinstance(error, torch.AcceleratorError):
                raise
            place = self._place(error.__traceback__)
            if place is None:
                raise
            raise ModelError(str(error)).at(place) from error

    def _place(self, traceback: python_types.TracebackType | None) -> str | None:
        """The ONNX node behind the innermost line of generated code in the traceback."""
        code = self.forward.__code__ if hasattr(self.forward, "__code__") else None
        line = None
        while traceback is not None:
            if traceback.tb_frame.f_code is code:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        if line is None or code is None:
            return None
        numbers = getattr(self.graph.python_code("self"), "_lineno_map", None) or {}
        nodes = list(self.graph.nodes)
        index = numbers.get(line - code.co_firstlineno)
        return nodes[index].meta.get("onnx") if index is not None and index < len(nodes) else None
