"""Finds blocks of mobile networks (`_separable`) in a traced network whose batch norms are folded."""

import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from . import _limits
from ._separable import (
    HARDSIGMOID,
    HARDSWISH,
    IDENTITY,
    SIGMOID,
    SILU,
    Activation,
    Convolution,
    FirstConvolution,
    PackedPointwise,
    SeparableBlock,
)

_MODULES: dict[type[nn.Module], Activation] = {
    nn.Hardswish: HARDSWISH,
    nn.SiLU: SILU,
    nn.Hardsigmoid: HARDSIGMOID,
    nn.Sigmoid: SIGMOID,
}
_FUNCTIONS: dict[Any, Activation] = {
    F.hardswish: HARDSWISH,
    F.silu: SILU,
    F.hardsigmoid: HARDSIGMOID,
    F.sigmoid: SIGMOID,
    torch.sigmoid: SIGMOID,
}
_ADDITIONS = (operator.add, operator.iadd, torch.add)
_PRODUCTS = (operator.mul, operator.imul, torch.mul)


class _Graph:
    """The network, and what its nodes stand for."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.traced = traced

    def module(self, node: object) -> nn.Module | None:
        """The module that the node calls with one argument."""
        if not isinstance(node, fx.Node) or node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            return None
        return self.traced.get_submodule(str(node.target))

    def activation(self, node: fx.Node) -> Activation | None:
        """What the node computes of its first argument alone; None where it is something else."""
        limits = _limits._limits_of(self.traced, node)
        if limits is not None:
            return Activation(0, *limits)
        module = self.module(node)
        if module is not None:
            return _MODULES.get(type(module))
        if node.op == "call_function" and len(node.args) == 1 and not set(node.kwargs) - {"inplace"}:
            return _FUNCTIONS.get(node.target)
        return None

    def convolution(self, node: object) -> Convolution | None:
        """The convolution of two dimensions that the node is; None where it is something else or of another kind."""
        module = self.module(node)
        if type(module) is nn.Conv2d:
            if module.padding_mode != "zeros" or isinstance(module.padding, str) or module.dilation != (1, 1):
                return None
            options: tuple[Any, ...] = module.weight, module.bias, module.stride, module.padding, module.groups
        elif isinstance(node, fx.Node) and _limits._is_row(node, "Conv"):
            row = _limits._arguments_of_row(node)
            if row is None or list(row[5]) != [1, 1]:
                return None
            options = self._tensor(row[1]), self._tensor(row[2]), row[3], row[4], row[6]
            if options[1] is None and row[2] is not None:
                return None
        else:
            return None
        weight, bias, stride, padding, groups = options
        if not isinstance(weight, Tensor) or weight.dim() != 4 or weight.dtype != torch.float32 or weight.is_meta:
            return None
        if stride[0] != stride[1]:
            return None
        return Convolution(weight, bias, stride[0], tuple(padding), groups)

    def _tensor(self, node: object) -> Tensor | None:
        if not isinstance(node, fx.Node) or node.op != "get_attr":
            return None
        value: Any = self.traced
        for name in str(node.target).split("."):
            value = getattr(value, name, None)
        return value if isinstance(value, Tensor) else None

    def pointwise(self, node: object) -> Convolution | None:
        """The node as a 1x1 convolution in one group that reads every pixel."""
        found = self.convolution(node)
        if found is None or found.groups != 1 or found.stride != 1 or found.padding != (0, 0):
            return None
        return found if tuple(found.weight.shape[2:]) == (1, 1) else None

    def depthwise(self, node: object) -> Convolution | None:
        """The node as a convolution with one square filter for each channel."""
        found = self.convolution(node)
        if found is None or found.groups < 2 or found.stride > 2:
            return None
        channels, per_group, height, width = found.weight.shape
        fits = channels == found.groups and per_group == 1 and height == width and height in (3, 5, 7)
        return found if fits and max(found.padding) < height else None

    def with_activation(self, node: fx.Node, found: Convolution) -> tuple[fx.Node, Convolution]:
        """The convolution with the activation that alone reads it, and the last node of the two."""
        reader = only_reader(node)
        activation = None if reader is None else self.activation(reader)
        if reader is None or activation is None:
            return node, found
        return reader, replace(found, activation=activation)


def only_reader(node: fx.Node) -> fx.Node | None:
    """The one node that reads this one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def _convolution_before(graph: _Graph, node: object) -> tuple[fx.Node, Convolution] | None:
    """The 1x1 convolution, and perhaps activation, whose result is this node, which alone is read."""
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return None
    activation, at = graph.activation(node), node
    if activation is not None and node.args and isinstance(node.args[0], fx.Node):
        at = node.args[0]
        if len(at.users) != 1:
            return None
    found = graph.pointwise(at)
    return None if found is None else (at, replace(found, activation=activation or IDENTITY))


def _is_mean(graph: _Graph, node: fx.Node) -> bool:
    """Whether the node is the mean over both dimensions of the image, which stay."""
    module = graph.module(node)
    if isinstance(module, nn.AdaptiveAvgPool2d):
        return module.output_size in (1, (1, 1))
    if node.op == "call_function" and node.target is F.adaptive_avg_pool2d:
        return len(node.args) == 2 and node.args[1] in (1, (1, 1))
    if (node.op, node.target) == ("call_method", "mean") or node.target is torch.mean:
        options = dict(zip(("dim", "keepdim"), node.args[1:], strict=False)) | dict(node.kwargs)
        axes = options.get("dim")
        return isinstance(axes, (list, tuple)) and list(axes) in ([2, 3], [-2, -1]) and options.get("keepdim") is True
    return False


def _squeeze_and_excite(graph: _Graph, node: fx.Node) -> tuple[fx.Node, Convolution, Convolution] | None:
    """node * gate(excite(act(squeeze(mean of node)))), which read `node` alone: the product and the convolutions."""
    if len(node.users) != 2:
        return None
    means = [user for user in node.users if _is_mean(graph, user)]
    products = [user for user in node.users if user.op == "call_function" and user.target in _PRODUCTS]
    squeeze_node = only_reader(means[0]) if len(means) == len(products) == 1 else None
    squeeze = graph.pointwise(squeeze_node)
    if squeeze_node is None or squeeze is None:
        return None
    last, squeeze = graph.with_activation(squeeze_node, squeeze)
    excite_node = only_reader(last)
    excite = graph.pointwise(excite_node)
    if excite_node is None or excite is None:
        return None
    last, excite = graph.with_activation(excite_node, excite)
    product = only_reader(last)
    if product is not products[0] or product.kwargs or set(product.args) != {last, node} or len(product.args) != 2:
        return None
    return product, squeeze, excite


def _residual(last: fx.Node, source: object) -> fx.Node | None:
    """The sum of the block's input and its result, which nothing else reads."""
    total = only_reader(last)
    if total is None or total.op != "call_function" or total.target not in _ADDITIONS or total.kwargs:
        return None
    return total if len(total.args) == 2 and set(total.args) == {last, source} and last is not source else None


def _block(graph: _Graph, node: fx.Node) -> tuple[fx.Node, fx.Node, SeparableBlock] | None:
    """The block around a depthwise convolution: its input, its last node, and what computes it."""
    depthwise = graph.depthwise(node)
    if depthwise is None or not isinstance(node.args[0], fx.Node):
        return None
    source = node.args[0]
    before = _convolution_before(graph, source)
    expand = None
    if before is not None and isinstance(before[0].args[0], fx.Node):
        source, expand = before[0].args[0], before[1]
    last, depthwise = graph.with_activation(node, depthwise)
    squeeze = excite = None
    excited = _squeeze_and_excite(graph, last)
    if excited is not None:
        last, squeeze, excite = excited
    project_node = only_reader(last)
    project = graph.pointwise(project_node)
    if project_node is None or project is None or project_node.args[0] is not last:
        return None
    last, project = graph.with_activation(project_node, project)
    kernel, results = depthwise.weight.shape[-1], project.weight.shape[0]
    sources = depthwise.weight.shape[0] if expand is None else expand.weight.shape[1]
    same_size = depthwise.stride == 1 and depthwise.padding == (kernel // 2, kernel // 2)
    total = _residual(last, source) if same_size and sources == results else None
    block = SeparableBlock(depthwise, project, expand, squeeze, excite, residual=total is not None)
    return source, total or last, block


def _names(traced: fx.GraphModule, prefix: str) -> Iterator[str]:
    for number in range(len(traced.graph.nodes)):
        if not hasattr(traced, f"{prefix}_{number}"):
            yield f"{prefix}_{number}"


def _replace(traced: fx.GraphModule, source: fx.Node, last: fx.Node, name: str, module: nn.Module) -> fx.Node:
    traced.add_submodule(name, module.eval())
    with traced.graph.inserting_before(last):
        node = traced.graph.call_module(name, (source,))
    last.replace_all_uses_with(node)
    waiting, erased = [last], {source}
    while waiting:  # nodes behind the source, which nobody reads any more
        dead = waiting.pop()
        if dead.users or dead in erased or dead.op == "placeholder":
            continue
        waiting += dead.all_input_nodes
        traced.graph.erase_node(dead)
        erased.add(dead)
    return node


def fuse(traced: fx.GraphModule) -> None:
    """Replaces blocks, 1x1 convolutions that follow them, and the convolution that comes before the first of them."""
    graph, names = _Graph(traced), _names(traced, "separable")
    made: list[fx.Node] = []
    for node in list(traced.graph.nodes):
        if node in made or node.op not in ("call_module", "call_function") or not node.args:
            continue
        found = _block(graph, node)
        if found is not None:
            made.append(_replace(traced, found[0], found[1], next(names), found[2]))
    if not made:
        return
    names = _names(traced, "pointwise")
    for node in list(traced.graph.nodes):
        pointwise = graph.pointwise(node) if node.args and node.args[0] in made else None
        if pointwise is not None:
            last, pointwise = graph.with_activation(node, pointwise)
            made.append(_replace(traced, node.args[0], last, next(names), PackedPointwise(pointwise)))
    before = _convolution_before_block(graph, made[0].args[0])
    if before is not None:
        node, last, convolution = before
        source = node.args[0]
        assert isinstance(source, fx.Node)
        _replace(traced, source, last, next(_names(traced, "first")), FirstConvolution(convolution))


def _convolution_before_block(graph: _Graph, last: object) -> tuple[fx.Node, fx.Node, Convolution] | None:
    """The convolution whose result, or its activation's, is this node, which alone is read; the node."""
    if not isinstance(last, fx.Node) or len(last.users) != 1:
        return None
    activation, node = graph.activation(last), last
    if activation is not None and last.args and isinstance(last.args[0], fx.Node):
        node = last.args[0]
    found = graph.convolution(node)
    if found is None or len(node.users) != 1 or not isinstance(node.args[0], fx.Node):
        return None
    return node, last, replace(found, activation=activation or IDENTITY)
