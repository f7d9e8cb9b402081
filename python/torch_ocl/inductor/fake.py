"""Where FakeTensor would predict other strides than the device's kernels give.

Compiled code is made for the predicted strides. Each function here repeats what the kernel does, and stands in for
PyTorch's own prediction when the tensors are on `ocl`. tests/python/compile/test_fake_tensors.py compares the two over
the operator database.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _core

aten = torch.ops.aten
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _suggests_last(tensor: Tensor) -> bool:
    from torch._prims_common import suggest_memory_format

    return tensor.dim() in _LAST and suggest_memory_format(tensor) is _LAST[tensor.dim()]


def _in_format(tensor: Tensor | None, last: bool) -> Tensor | None:
    if tensor is None:
        return None
    return tensor.to(memory_format=_LAST[tensor.dim()]) if last and tensor.dim() in _LAST else tensor.contiguous()


def _convolution_formats(input: Tensor, weight: Tensor) -> tuple[bool, bool]:
    """Whether results are channels last, and whether gradients of the filters are (csrc/torch/aten/conv.cpp)."""
    results = _suggests_last(input) or _suggests_last(weight)
    return results, not weight.is_contiguous() and _suggests_last(weight)


def _convolution(mode: Any, original: Any, func: Any, arguments: dict[str, Any]) -> Any:
    with mode:
        results, filters = _convolution_formats(arguments["input"], arguments["weight"])
    out = original(mode, func, **arguments)
    with mode:
        if isinstance(out, Tensor):
            return _in_format(out, results)
        return _in_format(out[0], results), _in_format(out[1], filters), out[2]


def _heads_inside(tensor: Any) -> Any:
    """(B, H, S, D) in memory as (B, S, H, D): what follows attention merges the heads."""
    if not isinstance(tensor, Tensor) or tensor.dim() != 4:
        return tensor
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _attention(mode: Any, original: Any, func: Any, arguments: dict[str, Any]) -> Any:
    out = original(mode, func, **arguments)
    with mode:
        return (_heads_inside(out[0]), *out[1:])


def _attention_backward(mode: Any, original: Any, func: Any, arguments: dict[str, Any]) -> Any:
    out = original(mode, func, **arguments)
    with mode:
        return (*(_heads_inside(gradient) for gradient in out[:3]), *out[3:])


def _group_norm(mode: Any, original: Any, func: Any, arguments: dict[str, Any]) -> Any:
    out = original(mode, func, **arguments)
    with mode:
        return (out[0].contiguous(), *out[1:])


def _as_input(mode: Any, original: Any, func: Any, arguments: dict[str, Any]) -> Any:
    """Channels last where the input is; the kernels for meta tensors forget it."""
    first, *others = arguments.values()  # by position: the names were normalised, `self` to `input`
    with mode:
        last = _suggests_last(first)
    names = [argument.name for argument in func._schema.arguments]
    out = original(mode, func, **dict(zip(names, [first, *others], strict=False)))
    with mode:
        return _in_format(out, last)


Fake = Callable[[Any, Any, Any, dict[str, Any]], Any]
_FAKES: dict[Any, Fake] = {
    aten.convolution.default: _convolution,
    aten._convolution.default: _convolution,
    aten.convolution_backward.default: _convolution,
    aten._scaled_dot_product_fused_attention_overrideable.default: _attention,
    aten._scaled_dot_product_fused_attention_overrideable_backward.default: _attention_backward,
    aten.native_group_norm.default: _group_norm,
    aten.channel_shuffle.default: _as_input,
    aten.native_channel_shuffle.default: _as_input,
}


def _by_meta_kernel(mode: Any, func: Any, **arguments: Any) -> Any:
    """What FakeTensorMode does with an operator that has no rule of its own: its kernel for meta tensors."""
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
    from torch.utils import _pytree

    device = next(value.fake_device for value in arguments.values() if isinstance(value, FakeTensor))
    with in_kernel_invocation_manager(mode):
        out = func(**arguments)
    return _pytree.tree_map_only(Tensor, lambda tensor: FakeTensor(mode, tensor, device), out)


def install(fake_impls: Any) -> None:
    """Puts the rules in front of those of torch._subclasses.fake_impls."""
    from torch._subclasses.fake_tensor import FakeTensor

    table = fake_impls.op_implementations_dict
    limited = {torch.ops.ocl.limited_convolution.default: _convolution} if _core.loaded() else {}
    for op, fake in (_FAKES | limited).items():
        table[op] = _make(op, fake, table.get(op), FakeTensor)


def _make(op: Any, fake: Fake, original: Any, fake_tensor: Any) -> Any:
    from torch.fx.operator_schemas import _normalize_function_or_error

    def rule(mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        _, arguments = _normalize_function_or_error(func, args=args, kwargs=kwargs, normalize_to_only_use_kwargs=True)
        on_ocl = any(isinstance(v, fake_tensor) and v.fake_device.type == "ocl" for v in arguments.values())
        if on_ocl:
            return fake(mode, original or _by_meta_kernel, func, arguments)
        return original(mode, func, *args, **kwargs) if original else NotImplemented

    return rule
