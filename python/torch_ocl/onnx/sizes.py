"""Values that the importer computes on the host: sizes, and what is computed from them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from onnx import NodeProto
from torch import fx

from . import host, registry, types
from .graph import GraphBuilder
from .values import Value


class SizeBuilder(GraphBuilder):
    """Emits values by the rules of host.py, each when something asks for it."""

    def on_host(
        self,
        row: registry.Row,
        node: NodeProto,
        inputs: list[Value | None],
        attributes: dict[str, Any],
        elements: list[int],
    ) -> Value | None:
        """A value that is computed by host.RULES when it is needed there, and made a tensor from that elsewhere."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        if any(value is None or value.extent is None for value in inputs):
            return None
        values = [value for value in inputs if value is not None]
        rule = host.RULES[row.operator]
        extent = rule.extent([v.extent for v in values if v.extent], attributes, [value.known() for value in values])
        if extent is None:
            return None
        place = self.place

        def evaluate() -> Any:
            arguments = [self.number(value) for value in values]
            named = {**attributes, "element": elements[0]}
            if all(value.known() is not None for value in values):
                return rule.function(*arguments, **named)
            with self._at(place):
                return self.call(rule.function, arguments, f"{node.output[0]}_host", named)

        result = Value(node.output[0], elements[0], extent=extent, later_host=evaluate)
        if any(isinstance(value, torch.Tensor) for value in attributes.values()):
            result.host = evaluate()  # ConstantOfShape: a size that is known
        result.later = lambda: self._uploaded(result)
        return result

    def _uploaded(self, value: Value) -> fx.Node:
        element = value.element or types.INT64
        return self.call(host.to_tensor, (self.number(value), types.dtype_of(element), self.anchor()), value.name)

    @contextlib.contextmanager
    def _at(self, place: str) -> Iterator[None]:
        before, self.place = self.place, place
        yield
        self.place = before

    def shape(self, operator_name: str, node: NodeProto, data: Value, attributes: dict[str, Any]) -> Value:
        result = Value(node.output[0], types.INT64)
        rank = data.extent.rank if data.extent is not None else self.ranks.get(data.name)
        if operator_name == "Size":
            result.extent = host.Extent(0)
        else:
            start, end = attributes.get("start", 0), attributes.get("end")
            result.extent = host.Extent(1, None if rank is None else len(range(rank)[start:end]))
        if data.extent is not None and data.extent.rank == 1 and data.extent.length is not None:
            length = data.extent.length
            result.host = length if operator_name == "Size" else [length][slice(start, end)]
            return result
        function = host.count_of if operator_name == "Size" else host.shape_of
        place = self.place

        def evaluate() -> fx.Node:
            tensor = self.tensor(data)
            with self._at(place):
                return self.call(function, (tensor,), f"{node.output[0]}_host", attributes)

        result.later_host = evaluate
        result.later = lambda: self._uploaded(result)
        return result
