"""Activations that the operator library computes with the product or convolution before them, in graphs for inference.

The operators are those that torch_ocl.optimize() puts into networks. Batch norms are folded by Inductor itself when
torch._inductor.config.freezing is set; what then stands behind a convolution is its activation.
"""

import math
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _only_reader(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _limits(node: fx.Node | None, of: fx.Node) -> tuple[float, float] | None:
    """The bounds of an activation of `of` that cuts off."""
    if node is None or node.op != "call_function" or node.kwargs or node.args[:1] != (of,):
        return None
    low: Any = -math.inf
    high: Any = math.inf
    if node.target is aten.relu.default:
        low = 0.0
    elif node.target is aten.clamp_min.default:
        low = node.args[1]
    elif node.target is aten.clamp_max.default:
        high = node.args[1]
    elif node.target is aten.clamp.default:
        low, high = [*node.args[1:], None, None][:2]
        low, high = -math.inf if low is None else low, math.inf if high is None else high
    else:
        return None
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    return (float(low), float(high)) if numbers and low <= high else None


def _activation(of: fx.Node) -> tuple[list[fx.Node], tuple[float, float]] | None:
    """The nodes behind `of` that do nothing but cut off, and what remains."""
    nodes: list[fx.Node] = []
    low, high, last = -math.inf, math.inf, of
    while (node := _only_reader(last)) is not None and (limits := _limits(node, last)) is not None:
        bounds = max(low, limits[0]), min(high, limits[1])
        if bounds[0] > bounds[1]:
            break
        (low, high), last = bounds, node
        nodes.append(node)
    return (nodes, (low, high)) if nodes else None


def _limited_convolution(node: fx.Node, limits: tuple[float, float]) -> tuple[Any, tuple[Any, ...]] | None:
    x, weight = _value(node.args[0]), _value(node.args[1])
    bias, stride, padding, dilation, transposed, _, groups = node.args[2:]
    if x is None or weight is None or transposed or x.dim() != weight.dim() or x.dtype not in _TYPES:
        return None
    arguments = (*node.args[:2], bias, stride, padding, dilation, groups, *limits)
    return torch.ops.ocl.limited_convolution.default, arguments


def _product_with_relu(node: fx.Node, limits: tuple[float, float]) -> tuple[Any, tuple[Any, ...]] | None:
    bias = _value(node.args[0])
    if limits != (0.0, math.inf) or node.kwargs or bias is None or bias.dim() != 1 or bias.dtype not in _TYPES:
        return None
    return aten._addmm_activation.default, tuple(node.args)


_ROWS = {aten.convolution.default: _limited_convolution, aten.addmm.default: _product_with_relu}


def fuse(graph: fx.GraphModule) -> None:
    """Joins convolutions and products on ocl with the ReLU or clamp that alone reads them, in a graph of ATen's
    operators that is not differentiated."""
    changed = False
    for node in list(graph.graph.nodes):
        value = _value(node)
        if node.op != "call_function" or node.target not in _ROWS or value is None or value.device.type != "ocl":
            continue
        found = _activation(node)
        made = _ROWS[node.target](node, found[1]) if found else None
        if not found or not made:
            continue
        last = found[0][-1]
        with graph.graph.inserting_before(last):
            joined = graph.graph.call_function(*made)
        joined.meta.update(node.meta)
        last.replace_all_uses_with(joined)
        for old in (*reversed(found[0]), node):
            graph.graph.erase_node(old)
        changed = True
    if changed:
        graph.recompile()
