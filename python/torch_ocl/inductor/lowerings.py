"""Operators that become other expressions on `ocl` than Inductor's own lowerings make of them."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from .functions import FUNCTIONS

aten = torch.ops.aten
# Those of FUNCTIONS that have float64 only where a program has nothing else, and operators made of them.
_MADE_OF_THEM = ("div", "polygamma", "special_polygamma", "frexp")


def _on_ocl(value: Any, dtype: torch.dtype | None = None) -> bool:
    from torch._inductor.ir import IRNode

    if not isinstance(value, IRNode):
        return False
    device = value.get_device()
    return device is not None and device.type == "ocl" and dtype in (None, value.get_dtype())


def _computes_in_both_types(graph: Any) -> bool:
    """Whether an FX graph has values of float64 and of types that are computed in float32."""
    types = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, torch.Tensor) and one.dtype.is_floating_point:
                types.add(one.dtype)
    return torch.float64 in types and len(types) > 1


def _apart(op: Any, original: Callable[..., Any], lowering: Any) -> Callable[..., Any]:
    """A program has the library's functions of one type. So in a graph of both, those of float64 that OpenCL C lacks
    are calls of the eager operator."""
    from torch._inductor.virtualized import V

    @functools.wraps(original)
    def lower(*arguments: Any, **options: Any) -> Any:
        if any(_on_ocl(value, torch.float64) for value in arguments) and _computes_in_both_types(V.graph.module.graph):
            return lowering.fallback_handler(op, add_to_fallback_set=False)(*arguments, **options)
        return original(*arguments, **options)

    return lower


def _floors(op: Any, original: Callable[..., Any], lowering: Any) -> Callable[..., Any]:
    """Upstream floors the rounded quotient: inf // 2 is inf there and 1 // 0.1 is 10, where eager has NaN and 9."""
    own: dict[Any, Any] = {}

    def floor_divide(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        return lowering.floordiv(a, b)

    lowering.register_lowering(op, broadcast=True, lowering_dict=own)(floor_divide)

    @functools.wraps(original)
    def lower(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        floors = rounding_mode == "floor" and (_on_ocl(a) or _on_ocl(b))
        return (own[op] if floors else original)(a, b, rounding_mode=rounding_mode)

    return lower


def plain_additions(graph: torch.fx.GraphModule) -> None:
    """torch.add(a, b, alpha=s) of a product of matrices becomes a + s * b. Inductor's pattern that makes addmm of a
    product and an addition does not see alpha."""
    changed = False
    for node in graph.graph.find_nodes(op="call_function", target=aten.add.Tensor):
        factor, value = node.kwargs.get("alpha", 1), node.meta.get("val")
        products = [arg for arg in node.args if isinstance(arg, torch.fx.Node) and arg.target is aten.mm.default]
        if factor == 1 or not products or not isinstance(value, torch.Tensor) or value.device.type != "ocl":
            continue
        a, b = node.args
        with graph.graph.inserting_before(node):
            scaled = graph.graph.call_function(aten.mul.Tensor, (b, factor))
        with value.fake_mode:  # type: ignore[attr-defined]
            scaled.meta["val"] = aten.mul.Tensor(b.meta["val"], factor)
        node.args, node.kwargs = (a, scaled), {}
        changed = True
    if changed:
        graph.recompile()


def install(lowering: Any) -> None:
    """Stands in front of rows of torch._inductor.lowering.lowerings; other devices keep them."""
    table = lowering.lowerings
    # Decomposed before it comes here, but where epilogues.py has put it.
    lowering.make_fallback(aten._addmm_activation.default, warn=False, override_decomp=True)
    for op in (aten.div.Tensor_mode, aten.div.Scalar_mode):
        if op in table:
            table[op] = _floors(op, table[op], lowering)
    names = {name for name, row in FUNCTIONS.items() if row.double is None}
    for op, original in list(table.items()):
        if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten":
            name = op._schema.name.removeprefix("aten::")
            modes = name != "div" or op in (aten.div.Tensor_mode, aten.div.Scalar_mode)
            if modes and (name in names or f"special_{name}" in names or name in _MADE_OF_THEM):
                table[op] = _apart(op, original, lowering)
