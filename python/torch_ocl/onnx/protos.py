"""Reading parts of ONNX's messages."""

import collections
import itertools
from pathlib import Path

import onnx
import torch
from onnx import AttributeProto, GraphProto, NodeProto

from . import constants

# Inputs that training must not change: running statistics, scales and zero points.
STATISTICS = {
    "BatchNormalization": (3, 4),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "Resize": (1, 2),
    "Upsample": (1,),
}


def domain_of(name: str) -> str:
    """The domain under its short name: ai.onnx is \"\"."""
    return "" if name == "ai.onnx" else name


def resolved(node: NodeProto, given: dict[str, AttributeProto]) -> NodeProto:
    """The node with its references to attributes of the function around it replaced by those that are given."""
    if not any(proto.ref_attr_name for proto in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for proto in node.attribute:
        if not proto.ref_attr_name:
            copy.attribute.append(proto)
        elif proto.ref_attr_name in given:
            referred = copy.attribute.add()
            referred.CopyFrom(given[proto.ref_attr_name])
            referred.name = proto.name
    return copy


def without(node: NodeProto, names: set[str]) -> NodeProto:
    """The node with absent inputs in place of `names`."""
    if not names.intersection(node.input):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    for index, name in enumerate(node.input):
        if name in names:
            copy.input[index] = ""
    return copy


def element_of_type(kind: onnx.TypeProto) -> int:
    """The element type of a declared tensor, sequence or optional; 0 where there is none."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return int(kind.tensor_type.elem_type)
    if which == "sparse_tensor_type":
        return int(kind.sparse_tensor_type.elem_type)
    if which in ("sequence_type", "optional_type"):
        return element_of_type(getattr(kind, which).elem_type)
    return 0


def dense_of(proto: onnx.SparseTensorProto, folder: Path | None) -> torch.Tensor:
    """A sparse constant as a tensor."""
    values: torch.Tensor = constants.read_tensor(proto.values, folder)
    indices: torch.Tensor = constants.read_tensor(proto.indices, folder)
    dense = torch.zeros(tuple(proto.dims), dtype=values.dtype)
    if indices.dim() == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.unbind(1))] = values
    return dense


def uses_of(graph: GraphProto) -> collections.Counter[str]:
    """How often each name is an input, also in the graphs inside."""
    uses = collections.Counter(info.name for info in graph.output)
    for node in graph.node:
        uses.update(node.input)
        for proto in node.attribute:
            if proto.HasField("g"):
                uses.update(uses_of(proto.g))
    return uses


def statistics_of(graph: GraphProto) -> set[str]:
    """Names of running statistics, scales and zero points."""
    return {
        node.input[index]
        for node in graph.node
        for index in STATISTICS.get(node.op_type, ())
        if index < len(node.input)
    }


def ranks_of(model: onnx.ModelProto) -> dict[str, int]:
    """Ranks that the model declares, by the name of the value."""
    graph = model.graph
    return {
        info.name: len(info.type.tensor_type.shape.dim)
        for info in itertools.chain(graph.input, graph.value_info)
        if info.type.tensor_type.HasField("shape")
    }
