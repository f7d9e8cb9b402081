"""Activations that the operator library computes with the product or convolution before them, in graphs for inference.

The operators are those that torch_ocl.optimize() puts into networks. Batch norms are folded by Inductor itself when
torch._inductor.config.freezing is set; what then stands behind a convolution is its activation.
"""

import functools
import math
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
prims = torch.ops.prims
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
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


def _is(node: fx.Node | None, target: Any, *arguments: Any) -> bool:
    """Whether `node` is a call of `target` with these arguments and no others; numbers may be rounded."""
    if node is None or node.op != "call_function" or node.target is not target or node.kwargs:
        return False
    if len(node.args) != len(arguments):
        return False
    return all(
        math.isclose(given, wanted, rel_tol=1e-6)
        if isinstance(wanted, (int, float)) and isinstance(given, (int, float))
        else given is wanted
        for given, wanted in zip(node.args, arguments, strict=True)
    )


def _gelu(of: fx.Node) -> list[fx.Node] | None:
    """The nodes of an exact GELU of `of` that alone read it, the result last. Half types are computed in float32."""
    nodes: list[fx.Node] = []
    value, x = _value(of), of
    assert value is not None
    if value.dtype != torch.float32:
        wide = _only_reader(of)
        if wide is None or not _is(wide, prims.convert_element_type.default, of, torch.float32):
            return None
        nodes, x = [wide], wide
    halves = [user for user in x.users if _is(user, aten.mul.Tensor, x, 0.5)]
    roots = [user for user in x.users if _is(user, aten.mul.Tensor, x, math.sqrt(0.5))]
    if len(x.users) != 2 or len(halves) != 1 or len(roots) != 1:
        return None
    half, root = halves[0], roots[0]
    erf = _only_reader(root)
    sum_ = _only_reader(erf) if erf is not None and _is(erf, aten.erf.default, root) else None
    result = _only_reader(sum_) if sum_ is not None and _is(sum_, aten.add.Tensor, erf, 1) else None
    if result is None or _only_reader(half) is not result or not _is(result, aten.mul.Tensor, half, sum_):
        return None
    nodes += [half, root, *(node for node in (erf, sum_, result) if node is not None)]
    if x is not of:
        narrow = _only_reader(result)
        if narrow is None or not _is(narrow, prims.convert_element_type.default, result, value.dtype):
            return None
        nodes.append(narrow)
    return nodes


def _limited_convolution(node: fx.Node, limits: tuple[float, float]) -> tuple[Any, tuple[Any, ...]] | None:
    x, weight = _value(node.args[0]), _value(node.args[1])
    bias, stride, padding, dilation, transposed, _, groups = node.args[2:]
    if x is None or weight is None or transposed or x.dim() != weight.dim() or x.dtype not in _TYPES:
        return None
    arguments = (*node.args[:2], bias, stride, padding, dilation, groups, *limits)
    return torch.ops.ocl.limited_convolution.default, arguments


def _takes_activation(node: fx.Node) -> bool:
    """Whether addmm `node` is what a linear layer with a bias does."""
    bias = _value(node.args[0])
    return not node.kwargs and bias is not None and bias.dim() == 1 and bias.dtype in _TYPES


def _product_with_relu(node: fx.Node, limits: tuple[float, float]) -> tuple[Any, tuple[Any, ...]] | None:
    if limits != (0.0, math.inf) or not _takes_activation(node):
        return None
    return aten._addmm_activation.default, tuple(node.args)


_ROWS: dict[Any, Any] = {aten.convolution.default: _limited_convolution, aten.addmm.default: _product_with_relu}


def _join(graph: fx.Graph, node: fx.Node) -> bool:
    """Puts one call in the place of `node`, a convolution or product, and of the activation behind it, which may be of
    another shape of it (linear layers are products of matrices between two views)."""
    view = _only_reader(node)
    shaped = view if view is not None and view.target in _VIEWS and view.args[0] is node else node
    found = _activation(shaped)
    options: dict[str, Any] = {}
    made = _ROWS[node.target](node, found[1]) if found else None
    nodes = found[0] if found else []
    if made is None and node.target is aten.addmm.default and _takes_activation(node):
        nodes, options = _gelu(shaped) or [], {"use_gelu": True}
        made = (aten._addmm_activation.default, tuple(node.args)) if nodes else None
    if made is None:
        return False
    with graph.inserting_before(node):
        joined = graph.call_function(made[0], made[1], options)
    joined.meta.update(node.meta)
    node.replace_all_uses_with(joined)
    nodes[-1].replace_all_uses_with(joined if shaped is node else shaped)
    for old in (*reversed(nodes), node):
        graph.erase_node(old)
    return True


@functools.cache
def _lower() -> None:
    """Tells Inductor that the operator stays a call. (That of products stands in lowerings.py, as ATen's own.)"""
    from torch._inductor import lowering

    lowering.make_fallback(torch.ops.ocl.limited_convolution.default, warn=False)


def fuse(graph: fx.GraphModule) -> None:
    """Joins convolutions and products on ocl with the ReLU, clamp or exact GELU that alone reads them, in a graph of
    ATen's operators that is not differentiated."""
    changed = False
    for node in list(graph.graph.nodes):
        value = _value(node)
        if node.op == "call_function" and node.target in _ROWS and value is not None and value.device.type == "ocl":
            changed = _join(graph.graph, node) or changed
    if changed:
        _lower()
        graph.recompile()
