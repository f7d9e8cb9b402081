"""Convolutions with the ReLU, ReLU6 or clip behind them in one kernel, for `torch_ocl.optimize`."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from . import _core

_PLAIN: dict[int, Any] = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_ROWS = "torch_ocl.onnx.rows"  # where functions of imported models live; the package needs onnx


def limited_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    low: float,
    high: float,
) -> Tensor:
    """clamp(convolution(x), low, high), infinite where there is no bound: one kernel on `ocl`, two operators elsewhere.

    x is [N, C, *] or [C, *] with 1 to 3 further dimensions. Errors: those of F.conv1d to F.conv3d.
    """
    if (
        x.device.type == "ocl"
        and x.dim() == weight.dim()
        and x.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("ocl")
    ):
        fused: Tensor = torch.ops.ocl.limited_convolution(x, weight, bias, stride, padding, dilation, groups, low, high)
        return fused
    y = _PLAIN[weight.dim()](x, weight, bias, stride, padding, dilation, groups)
    if low == 0 and high == math.inf:
        return F.relu(y)
    return torch.clamp(y, None if low == -math.inf else low, None if high == math.inf else high)


def _sizes_of_limited_convolution(x: Tensor, weight: Tensor, *others: Any) -> Tensor:
    """The convolution's own; the limits, which are last, change nothing."""
    y: Tensor = _PLAIN[weight.dim()](x, weight, *others[:-2])
    return y


if _core.loaded():  # without a loader for OpenCL the package can be imported, and the operator is not there
    torch.library.impl("ocl::limited_convolution", "Meta")(_sizes_of_limited_convolution)


def limit_convolutions(traced: fx.GraphModule) -> None:
    """Joins every convolution to the activation that alone reads it."""
    for node in list(traced.graph.nodes):
        limits = _limits_of(traced, node)
        before = node.args[0] if limits and node.args else None
        if not isinstance(before, fx.Node) or len(before.users) != 1:
            continue
        with traced.graph.inserting_before(before):
            arguments = _arguments_of(traced, before)
            if arguments is None:
                continue
            joined = traced.graph.call_function(limited_convolution, (*arguments, *(limits or ())))
        node.replace_all_uses_with(joined)
        traced.graph.erase_node(node)
        traced.graph.erase_node(before)


def _is_row(node: fx.Node, name: str) -> bool:
    target = node.target
    return (
        node.op == "call_function"
        and getattr(target, "__module__", "") == _ROWS
        and str(getattr(target, "__name__", "")).startswith(f"{name}_")
    )


def _limits_of(traced: fx.GraphModule, node: fx.Node) -> tuple[float, float] | None:
    """The bounds of an activation that cuts off; None for everything else."""
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        if type(module) is nn.ReLU:
            return 0.0, math.inf
        if type(module) in (nn.ReLU6, nn.Hardtanh):
            return float(module.min_val), float(module.max_val)  # type: ignore[arg-type]
    if node.op == "call_function" and node.target in (F.relu, torch.relu):
        return 0.0, math.inf
    if node.op == "call_function" and node.target is F.relu6:
        return 0.0, 6.0
    if _is_row(node, "Clip"):
        low, high = [*node.args[1:], None, None][:2]
        low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low <= high:
            return float(low), float(high)
    return None


def _arguments_of(traced: fx.GraphModule, node: fx.Node) -> tuple[Any, ...] | None:
    """What limited_convolution takes, without the limits; None where the node is no convolution of that kind."""
    if _is_row(node, "Conv"):
        return _arguments_of_row(node)
    module = traced.get_submodule(str(node.target)) if node.op == "call_module" else None
    if type(module) not in (nn.Conv1d, nn.Conv2d, nn.Conv3d) or len(node.args) != 1 or node.kwargs:
        return None
    assert isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d))
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    weight = traced.graph.get_attr(f"{node.target}.weight")
    bias = None if module.bias is None else traced.graph.get_attr(f"{node.target}.bias")
    return node.args[0], weight, bias, module.stride, module.padding, module.dilation, module.groups


def _arguments_of_row(node: fx.Node) -> tuple[Any, ...] | None:
    x, weight, bias = [*node.args, None][:3]
    options = node.kwargs
    kernel = options.get("kernel_shape")
    if options.get("auto_pad", "NOTSET") not in ("NOTSET", "") or not isinstance(kernel, (list, tuple)):
        return None
    axes = len(kernel)
    pads: Any = options.get("pads") or [0] * 2 * axes
    if pads[:axes] != pads[axes:] or min(pads) < 0:
        return None
    ones = [1] * axes
    return (
        x, weight, bias, options.get("strides") or ones, pads[:axes], options.get("dilations") or ones,
        options.get("group", 1),
    )  # fmt: skip
