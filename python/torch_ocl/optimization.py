"""Rewrites a network for faster evaluation, with the same meaning: `torch_ocl.optimize(model)`."""

import copy
import inspect
import operator
import warnings

import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from . import _blocks, _limits, _products, _separable_graph

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_RELU_FUNCTIONS = (F.relu, torch.relu)
_ADD_FUNCTIONS = (operator.add, operator.iadd, torch.add)
# Results of these are new tensors that nothing else sees, so a ReLU behind them can work in place.
_FRESH_RESULTS = (*_CONVOLUTIONS, nn.Linear, *_BATCH_NORMS)


class AddReLU(nn.Module):
    """relu(a + b), one kernel on `ocl` and two operators elsewhere."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """relu(a + b) of two tensors that broadcast."""
        if a.device.type == "ocl" and b.device == a.device and a.is_floating_point() and not torch.is_grad_enabled():
            fused: torch.Tensor = torch.ops.aten._add_relu(a, b)
            return fused
        return F.relu(a + b)


def optimize(model: nn.Module) -> nn.Module:
    """A copy of `model` in evaluation mode in which batch norms are folded into the convolutions and linear layers
    before them, a ReLU, ReLU6 or clip is part of the convolution before it, other activations work in place where
    nobody else reads their input, the ReLU of a residual sum is part of the addition, and dropout is gone. Blocks of
    mobile networks (1x1, depthwise, squeeze and excite, 1x1, residual) are one call on CPU runtimes. In
    transformers the norm by the root mean square is one kernel, the gate and the other half of a gated layer (SwiGLU,
    GeGLU) are one product, and so are query, key and value of a single token.

    Outputs differ from the model's by rounding only. Modules that torch.fx cannot trace are kept and their parts are
    rewritten one by one; modules with hooks are kept as they are. Where nothing can be rewritten, a warning says why.
    The copy is for inference: its parameters are those of the merged layers and are not tied to the model's. Weights
    are quantised afterwards (`torch_ocl.quantize_`).
    """
    model = copy.deepcopy(model).eval()
    reasons: list[str] = []
    with torch.no_grad():
        blocks = _blocks.fuse(model)
        before = [id(module) for module in model.modules()]
        optimized = _rewrite(model, reasons)
    if not blocks and reasons and [id(module) for module in optimized.modules()] == before:
        warnings.warn(f"torch_ocl.optimize: nothing was rewritten: {reasons[0]}", stacklevel=2)
    return optimized


def _untraceable(module: nn.Module) -> str | None:
    """Why a trace of the module would not be right for every call: fx takes an argument that is left out as given."""
    if isinstance(module, fx.GraphModule):
        return None
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return f"forward of {type(module).__name__} takes any arguments ({parameter})"
        if parameter.default is None or isinstance(parameter.default, bool):
            return f"the argument {name} of {type(module).__name__}'s forward may be left out"
    return None


def _has_hooks(module: nn.Module) -> bool:
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


class _Tracer(fx.Tracer):
    """Keeps the parts of transformers that were fused as calls."""

    def is_leaf_module(self, module: nn.Module, qualified_name: str) -> bool:
        """Whether the module is not traced into."""
        return isinstance(module, _blocks.FUSED) or super().is_leaf_module(module, qualified_name)


def _trace(module: nn.Module, reasons: list[str]) -> fx.GraphModule | None:
    """The module as a graph; None and a reason where it has none."""
    if isinstance(module, fx.GraphModule):
        return module  # some of its functions (torch_ocl.onnx) cannot be traced into
    reason = _untraceable(module)
    if reason is None:
        try:
            graph = _Tracer().trace(module)
            return fx.GraphModule(module, graph, type(module).__name__)
        except Exception as error:  # control flow that depends on data, ...
            reason = (
                f"{type(module).__name__} cannot be traced: {str(error).splitlines()[0] if str(error) else error!r}"
            )
    reasons.append(reason)
    return None


def _rewrite(module: nn.Module, reasons: list[str]) -> nn.Module:
    if not any(True for _ in module.children()):
        return module
    if _has_hooks(module):
        reasons.append(f"{type(module).__name__} has hooks")
        return module
    traced = _trace(module, reasons)
    if traced is None:
        for name, child in list(module.named_children()):
            setattr(module, name, _rewrite(child, reasons))
        return module
    shared = _shared_modules(traced)
    _fold_batch_norms(traced, shared)
    _drop_identities(traced)
    _separable_graph.fuse(traced)
    _products.join_products(traced)
    _fuse_residual_sums(traced)
    _limits.limit_convolutions(traced)
    _activations_in_place(traced, shared)
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    return traced.eval()


def _shared_modules(traced: fx.GraphModule) -> set[int]:
    """Modules that are called more than once, by identity."""
    calls: dict[int, list[fx.Node]] = {}
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op == "call_module":
            calls.setdefault(id(modules[node.target]), []).append(node)
    return {key for key, nodes in calls.items() if len(nodes) > 1}


def _module_of(traced: fx.GraphModule, node: object) -> nn.Module | None:
    return traced.get_submodule(str(node.target)) if isinstance(node, fx.Node) and node.op == "call_module" else None


def _replace_module(traced: fx.GraphModule, target: str, module: nn.Module) -> None:
    parent, _, name = target.rpartition(".")
    setattr(traced.get_submodule(parent), name, module)


def _fold_batch_norms(traced: fx.GraphModule, shared: set[int]) -> None:
    read = {str(node.target).rpartition(".")[0] for node in traced.graph.nodes if node.op == "get_attr"}
    for node in list(traced.graph.nodes):
        norm = _module_of(traced, node)
        if not isinstance(norm, _BATCH_NORMS) or type(norm) not in _BATCH_NORMS:
            continue
        if norm.running_mean is None or len(node.args) != 1:
            continue
        before = node.args[0]
        layer = _module_of(traced, before)
        if layer is None or len(before.users) != 1 or {id(norm), id(layer)} & shared or before.target in read:
            continue
        fused: nn.Module
        if isinstance(layer, _CONVOLUTIONS) and type(layer) in _CONVOLUTIONS:
            fused = fuse_conv_bn_eval(layer, norm)
        elif type(layer) is nn.Linear and type(norm) is nn.BatchNorm1d:
            fused = fuse_linear_bn_eval(layer, norm)
        else:
            continue
        _replace_module(traced, before.target, fused)
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)


def _is_relu(traced: fx.GraphModule, node: fx.Node) -> bool:
    return isinstance(_module_of(traced, node), nn.ReLU) or (
        node.op == "call_function" and node.target in _RELU_FUNCTIONS
    )


def _fuse_residual_sums(traced: fx.GraphModule) -> None:
    for node in list(traced.graph.nodes):
        if not _is_relu(traced, node) or not node.args:
            continue
        total = node.args[0]
        if (
            not isinstance(total, fx.Node)
            or total.op != "call_function"
            or total.target not in _ADD_FUNCTIONS
            or len(total.users) != 1
        ):
            continue
        if len(total.args) != 2 or total.kwargs or not all(isinstance(argument, fx.Node) for argument in total.args):
            continue
        if not hasattr(traced, "add_relu"):
            traced.add_submodule("add_relu", AddReLU())
        with traced.graph.inserting_before(node):
            fused = traced.graph.call_module("add_relu", total.args)
        node.replace_all_uses_with(fused)
        traced.graph.erase_node(node)
        traced.graph.erase_node(total)


def _activations_in_place(traced: fx.GraphModule, shared: set[int]) -> None:
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.args else None
        if (
            not isinstance(source, fx.Node)
            or len(source.users) != 1
            or type(_module_of(traced, source)) not in _FRESH_RESULTS
        ):
            continue
        module = _module_of(traced, node)
        if (
            type(module) in (nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.SiLU, nn.Hardswish, nn.Hardsigmoid, nn.LeakyReLU)
            and id(module) not in shared
        ):
            setattr(module, "inplace", True)  # noqa: B010  not every type of module has it
        elif node.op == "call_function" and node.target is F.relu:
            node.kwargs = {**node.kwargs, "inplace": True}
            node.args = node.args[:1]


def _is_identity(traced: fx.GraphModule, node: fx.Node) -> bool:
    module = _module_of(traced, node)
    if isinstance(module, (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)):
        return len(node.args) == 1
    # torchvision's, a function that is not traced into: (input, p, mode, training)
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name == "stochastic_depth" and len(node.args) == 4 and node.args[3] is False and not node.kwargs


def _drop_identities(traced: fx.GraphModule) -> None:
    for node in list(traced.graph.nodes):
        if _is_identity(traced, node):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
