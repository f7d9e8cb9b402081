"""A torch.fx graph while it grows: forms of values on device and host, constants, calls."""

import itertools
import keyword
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import NodeProto
from torch import fx, nn

from . import host, types
from .module import OnnxModule
from .protos import domain_of, uses_of
from .values import Value, to_python


class Session:
    """What all graphs of one model share."""

    def __init__(self, model: onnx.ModelProto, folder: Path | None) -> None:
        self.folder = folder
        self.imports = {domain_of(entry.domain): entry.version for entry in model.opset_import} or {"": 1}
        self.functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        self.ir_version = model.ir_version
        self.waits = 0  # times the net waits for the device in a call
        self.depth = 0
        self.operators: dict[str, int] = {}
        self.uses = uses_of(model.graph)
        self.numbers = itertools.count()


class GraphBuilder:
    """One torch.fx graph while it grows."""

    def __init__(self, session: "Session", outer: "GraphBuilder | None" = None) -> None:
        self.session, self.outer = session, outer
        self.root, self.graph = nn.Module(), fx.Graph()
        self.start = self.graph.call_function(_start)  # placeholders go before it
        self.captured: dict[int, Value] = {}
        self.captures: list[tuple[Value, bool]] = []  # values of the outer graph, and whether their host form
        self.place = ""  # the node that is imported now
        self.ranks: dict[str, int] = {}
        self.arguments: list[str] = []  # names of the inputs
        self._anchor: fx.Node | None = None

    # Forms of values.

    def placeholder(self, name: str, optional: bool = False) -> fx.Node:
        """A new input of the graph, under a name of Python that no other input has. An optional one may be None."""
        name = identifier(name)
        while name in self.arguments:
            name += "_"
        self.arguments.append(name)
        with self.graph.inserting_before(self.start):
            return self.graph.placeholder(name, default_value=None) if optional else self.graph.placeholder(name)

    def capture(self, value: Value) -> Value:
        """The outer graph's `value` as a value of this one."""
        if id(value) not in self.captured:
            if value.is_constant() and (value.extent is not None or not isinstance(value.constant, torch.Tensor)):
                inner = Value(value.name, value.element, constant=value.constant)
            else:
                known = value.known() if value.extent is not None else None
                inner = Value(value.name, value.element, host=known, extent=value.extent)
                inner.later = lambda: self._captured(value, False)
                inner.later_host = lambda: self._captured(value, True)
            inner.constant = value.constant if value.is_constant() else None
            self.captured[id(value)] = inner
        return self.captured[id(value)]

    def _captured(self, value: Value, as_host: bool) -> fx.Node:
        self.captures.append((value, as_host))
        return self.placeholder(value.name or "captured")

    def anchor(self) -> fx.Node:
        """A tensor on the device of the module."""
        if self._anchor is None:
            if self.outer is None:
                self.root.register_buffer("_anchor", torch.empty(0), persistent=False)
                with self.graph.inserting_before(self.start):
                    self._anchor = self.graph.get_attr("_anchor")
            else:
                value = Value("anchor")
                value.later = self.outer.anchor
                self._anchor = self._captured(value, False)
        return self._anchor

    def tensor(self, value: Value) -> fx.Node:
        """The form on the device."""
        if value.node is None:
            if value.constant is not None and value.later is None:
                value.node = self._constant(value)
            elif value.later is not None:
                value.node = value.later()
            else:
                element = value.element or types.INT64
                value.node = self.call(host.to_tensor, (value.host, types.dtype_of(element), self.anchor()), value.name)
        return value.node

    def number(self, value: Value) -> Any:
        """The form on the host: a number, a list or an fx.Node for one of them. Waits for the device if it must."""
        if value.host is None:
            if isinstance(value.constant, torch.Tensor) and not value.parameter:
                value.host = to_python(value.constant)
            elif value.later_host is not None and value.extent is not None:
                value.host = value.later_host()
            else:
                self.session.waits += 1
                value.host = self.call(host.to_list, (self.tensor(value),), f"{value.name}_host")
        return value.host

    def _constant(self, value: Value) -> fx.Node:
        name = self._free_name(value.name or "constant")
        parent_name, _, last = name.rpartition(".")
        parent = self.root
        for part in parent_name.split(".") if parent_name else ():
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
        tensor = value.constant
        if not isinstance(tensor, torch.Tensor):
            setattr(parent, last, tensor)
        elif value.parameter:
            parent.register_parameter(last, nn.Parameter(tensor))
        else:
            parent.register_buffer(last, tensor)
        with self.graph.inserting_before(self.start):
            return self.graph.get_attr(name)

    def attribute_of(self, path: str) -> fx.Node:
        """Reads a parameter or buffer that the module has already."""
        with self.graph.inserting_before(self.start):
            return self.graph.get_attr(path)

    def _free_name(self, name: str) -> str:
        parts = [identifier(part) if not part.isdigit() else part for part in re.split(r"[./]", name) if part] or [
            "constant"
        ]
        place: Any = self.root
        for part in parts[:-1]:
            place = getattr(place, part, None)
            if place is None:
                return ".".join(parts)
            if not isinstance(place, nn.Module):
                break
        else:
            if not hasattr(place, parts[-1]):
                return ".".join(parts)
        flat = "_".join(parts)
        flat = flat if flat.isidentifier() else f"_{flat}"
        while hasattr(self.root, flat):
            flat += "_"
        return flat

    # Emission.

    def call(
        self, function: Any, arguments: Sequence[Any], name: str = "", named: dict[str, Any] | None = None
    ) -> fx.Node:
        """Emits a call; its errors will name the ONNX node that is imported now."""
        node = self.graph.create_node(
            "call_function", function, tuple(arguments), named or {}, identifier(name) if name else None
        )
        node.meta["onnx"] = self.place
        return node

    def call_module(self, name: str, module: nn.Module, arguments: Sequence[Any]) -> fx.Node:
        """Emits a call of a new submodule."""
        path = self._free_name(name)
        parent = self.root
        for part in path.split(".")[:-1]:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
        parent.add_module(path.rpartition(".")[2], module)
        node = self.graph.call_module(path, tuple(arguments))
        node.meta["onnx"] = self.place
        return node

    def results(self, call: fx.Node, node: NodeProto, elements: Sequence[int]) -> list[Value]:
        """Values of a node's outputs from the call that computes them."""
        if len(node.output) == 1:
            return [Value(node.output[0], elements[0], node=call)]
        return [
            Value(name, elements[index], node=self.call(operator.getitem, (call, index), name)) if name else Value("")
            for index, name in enumerate(node.output)
        ]

    def finish(self, outputs: Sequence[Any], class_name: str) -> OnnxModule:
        """The module of the graph. `outputs` are fx nodes, numbers or None."""
        self.graph.output(outputs[0] if self.outer is None and len(outputs) == 1 else tuple(outputs))
        self.graph.erase_node(self.start)
        self.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
        self.graph.lint()
        return OnnxModule(self.root, self.graph, identifier(class_name))


def _start() -> None:
    """Marks where the inputs end; never part of a finished graph."""


# Names that the code of a graph has already.
_TAKEN = {"self", "torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"}


def identifier(name: str) -> str:
    """A name of Python for a name of ONNX."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    text = text if text and not text[0].isdigit() else f"_{text}"
    return f"{text}_" if keyword.iskeyword(text) or text in _TAKEN else text
