"""Convolutions and batch norms as modules of torch.nn.

So `torch_ocl.optimize` folds them, train() gives batch norms and dropout their training form, and the names in
state_dict() are those of the PyTorch model that was exported.
"""

import functools
from typing import TYPE_CHECKING, Any

import torch
from onnx import NodeProto
from torch import fx, nn

from .registry import Row
from .values import Value

if TYPE_CHECKING:
    from .graph import GraphBuilder

_CONVOLUTIONS: dict[int, Any] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
_BATCH_NORMS: dict[int, Any] = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


def emit(
    builder: "GraphBuilder", row: Row, node: NodeProto, inputs: list[Value | None], attributes: dict[str, Any]
) -> fx.Node | None:
    """The call of a module for the node; None where a function serves it."""
    if row.domain or builder.outer is not None or len(node.output) != 1:
        return None
    if row.operator == "Conv":
        return _convolution(builder, node, inputs, attributes)
    if row.operator == "BatchNormalization":
        return _batch_norm(builder, node, inputs, attributes)
    if row.operator == "Dropout" and inputs[0] is not None and all(value is None for value in inputs[2:]):
        return _dropout(builder, node, inputs, attributes)
    return None


def _own(builder: "GraphBuilder", value: Value | None) -> torch.Tensor | None:
    """The constant behind `value` if no other node reads it."""
    if (
        value is None
        or value.node is not None
        or value.later is not None
        or not isinstance(value.constant, torch.Tensor)
    ):
        return None
    return value.constant if builder.session.uses[value.name] == 1 else None


def _symmetric(pads: list[int]) -> bool:
    return len(pads) % 2 == 0 and pads[: len(pads) // 2] == pads[len(pads) // 2 :] and min(pads, default=0) >= 0


def _name(parts: list[Value | None], fallback: str) -> str:
    """The prefix that the initializers share: conv1 of conv1.weight and conv1.bias."""
    first = parts[0]
    prefix, _, last = (first.name if first else "").rpartition(".")
    return prefix if prefix and last == "weight" else fallback


def _place(module: nn.Module, **tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if name in module._buffers:
            module._buffers[name] = tensor
        elif tensor is not None:
            module.register_parameter(name, nn.Parameter(tensor))


def _call(
    builder: "GraphBuilder", name: str, module: nn.Module, data: Value, parts: dict[str, Value | None]
) -> fx.Node:
    """Emits the module. Who else reads one of its tensors, through Identity, reads the module's."""
    call = builder.call_module(name, module, (builder.tensor(data),))
    for part, value in parts.items():
        if value is not None:
            value.later = functools.partial(builder.attribute_of, f"{call.target}.{part}")
    return call


def _convolution(
    builder: "GraphBuilder", node: NodeProto, inputs: list[Value | None], attributes: dict[str, Any]
) -> fx.Node | None:
    data, weight, bias = [*inputs, None, None][:3]
    kernel = _own(builder, weight)
    if data is None or kernel is None or kernel.dim() not in _CONVOLUTIONS or not kernel.is_floating_point():
        return None
    if bias is not None and _own(builder, bias) is None:
        return None
    axes = kernel.dim() - 2
    pads = attributes.get("pads", [0] * 2 * axes)
    groups = attributes.get("group", 1)
    plain = attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID", "") and len(pads) == 2 * axes
    if not plain or not _symmetric(pads) or groups < 1 or kernel.shape[0] % groups or kernel.numel() == 0:
        return None
    if attributes.get("kernel_shape", list(kernel.shape[2:])) != list(kernel.shape[2:]):
        raise ValueError(f"kernel_shape is {attributes['kernel_shape']}, the weight has the shape {list(kernel.shape)}")
    module = _CONVOLUTIONS[kernel.dim()](
        kernel.shape[1] * groups,
        kernel.shape[0],
        tuple(kernel.shape[2:]),
        stride=tuple(attributes.get("strides", [1] * axes)),
        padding=tuple(pads[:axes]),
        dilation=tuple(attributes.get("dilations", [1] * axes)),
        groups=groups,
        bias=bias is not None,
        device="meta",
    )
    _place(module, weight=kernel, bias=None if bias is None else bias.constant)
    builder.ranks[node.output[0]] = kernel.dim()
    return _call(builder, _name([weight], node.name or "conv"), module, data, {"weight": weight, "bias": bias})


def _batch_norm(
    builder: "GraphBuilder", node: NodeProto, inputs: list[Value | None], attributes: dict[str, Any]
) -> fx.Node | None:
    tensors = [_own(builder, value) for value in inputs[1:5]]
    data = inputs[0]
    if data is None or any(tensor is None for tensor in tensors) or attributes.get("training_mode"):
        return None
    rank = builder.ranks.get(data.name)
    if rank not in _BATCH_NORMS or not attributes.get("spatial", 1) or tensors[0] is None:
        return None
    if any(tensor is None or tensor.shape != tensors[0].shape for tensor in tensors):
        return None
    module = _BATCH_NORMS[rank](
        tensors[0].numel(),
        eps=attributes.get("epsilon", 1e-5),
        momentum=1 - attributes.get("momentum", 0.9),
        device="meta",
    )
    _place(module, weight=tensors[0], bias=tensors[1], running_mean=tensors[2], running_var=tensors[3])
    module.num_batches_tracked = torch.tensor(0)
    builder.ranks[node.output[0]] = rank
    parts = dict(zip(("weight", "bias", "running_mean", "running_var"), inputs[1:5]))
    return _call(builder, _name(inputs[1:2], node.name or "norm"), module, data, parts)


def _dropout(
    builder: "GraphBuilder", node: NodeProto, inputs: list[Value | None], attributes: dict[str, Any]
) -> fx.Node | None:
    data, ratio_input = [*inputs, None][:2]
    ratio = ratio_input.known() if ratio_input is not None else attributes.get("ratio", 0.5)
    if not isinstance(ratio, float) or not 0 <= ratio <= 1 or data is None:
        return None
    return builder.call_module(node.name or "dropout", nn.Dropout(ratio), (builder.tensor(data),))
