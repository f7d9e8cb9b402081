"""Products of imported ONNX models with the bias and the activation behind them, for `torch_ocl.optimize`."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

_ROWS = "torch_ocl.onnx.rows"  # where functions of imported models live; the package needs onnx


def biased_product(a: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
    """activation(a @ weight + bias), a [*, k], weight [k, n], bias [n]; activation: "none", "relu" or "gelu" (exact).

    One kernel on `ocl`. Errors: those of F.linear.
    """
    if activation == "none":
        return F.linear(a, weight.t(), bias)
    if (
        a.device.type == "ocl"
        and a.dim() >= 2
        and a.is_floating_point()
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("ocl")
    ):
        rows = a.reshape(-1, a.shape[-1])
        y: Tensor = torch.ops.aten._addmm_activation(bias, rows, weight, use_gelu=activation == "gelu")
        return y.view(*a.shape[:-1], y.shape[-1])
    y = F.linear(a, weight.t(), bias)
    return F.gelu(y) if activation == "gelu" else F.relu(y)


def join_products(traced: fx.GraphModule) -> None:
    """MatMul and Add of constants become one call, and so do ReLU and GELU behind them."""
    for total in list(traced.graph.nodes):
        found = _product(traced, total)
        if found is None:
            continue
        product, bias = found
        last, between, activation = _activation(total)
        with traced.graph.inserting_before(last):
            joined = traced.graph.call_function(biased_product, (*product.args, bias, activation))
        last.replace_all_uses_with(joined)
        for node in (last, *between, *([total] if last is not total else []), product):
            traced.graph.erase_node(node)


def _is(node: Any, function: Any) -> bool:
    """Whether the node calls the function, or the row of this name."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return False
    if not isinstance(function, str):
        return node.target is function
    name = str(getattr(node.target, "__name__", ""))
    return getattr(node.target, "__module__", "") == _ROWS and name.startswith(f"{function}_")


def _constant(traced: fx.GraphModule, node: Any, dimensions: int) -> Tensor | None:
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    value: Any = traced
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, Tensor) and value.dim() == dimensions else None


def _product(traced: fx.GraphModule, total: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The product and the bias that the node adds up."""
    if not _is(total, torch.add) or len(total.args) != 2 or total.kwargs:
        return None
    for product, bias in (total.args, total.args[::-1]):
        if not isinstance(product, fx.Node) or not _is(product, "MatMul") or len(product.users) != 1 or product.kwargs:
            continue
        weight, added = _constant(traced, product.args[1], 2), _constant(traced, bias, 1)
        if weight is None or added is None or weight.dtype != added.dtype or not weight.is_floating_point():
            continue
        if weight.shape[1] == added.shape[0] and isinstance(bias, fx.Node):
            return product, bias
    return None


def _activation(total: fx.Node) -> tuple[fx.Node, list[fx.Node], str]:
    """The last node of what follows, those between it and `total` from the last to the first, and the name."""
    users = list(total.users)
    if len(users) == 1 and _is(users[0], F.relu):
        return users[0], [], "relu"
    for root in users:
        chain = _gelu(total, root) if len(users) == 2 else None
        if chain:
            return chain[-1], chain[-2::-1], "gelu"
    return total, [], "none"


def _gelu(x: fx.Node, root: fx.Node) -> list[fx.Node] | None:
    """x * (erf(x / sqrt(2)) + 1) * 0.5 as PyTorch exports it; `root` is the division."""
    if not _is(root, "Div") or root.args[0] is not x or not _near(root.args[1], math.sqrt(2)):
        return None
    chain = [root]
    for function in (torch.erf, torch.add, torch.mul, torch.mul):
        users = list(chain[-1].users)
        if len(users) != 1 or not _is(users[0], function) or users[0].kwargs:
            return None
        chain.append(users[0])
    others = [[a for a in node.args if a is not before] for before, node in itertools.pairwise(chain[1:])]
    if any(len(other) != 1 for other in others) or not _near(others[0][0], 1):
        return None
    first, second = others[1][0], others[2][0]
    fits = (first is x and _near(second, 0.5)) or (second is x and _near(first, 0.5))
    return chain if fits else None


def _near(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and abs(value - number) < 1e-6
