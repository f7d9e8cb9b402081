"""torch.nn.attention.flex_attention takes tensors of `ocl`.

PyTorch refuses devices that are not in a list of names. Dynamo looks into this module, other than into the rest of the
package: what is here is part of graphs.
"""

from typing import Any

from torch import Tensor


def accept(module: Any) -> None:
    """Changes torch.nn.attention.flex_attention, and what torch.autocast does with its operator."""
    refuse = module._validate_device

    def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
        if query.device.type != "ocl":
            refuse(query, key, value)

    module._validate_device = _validate_device
    _autocast()


def _autocast() -> None:
    import torch
    from torch._higher_order_ops.flex_attention import flex_attention as operator

    # not in the type stubs
    key = getattr(torch._C.DispatchKey, "AutocastPrivateUse1")  # noqa: B009
    if key in operator.py_kernels:
        return

    def with_autocast(*arguments: Any) -> Any:
        dtype = torch.get_autocast_dtype("ocl")
        cast: Any = [
            t.to(dtype) if t.is_floating_point() and t.dtype is not torch.float64 else t for t in arguments[:3]
        ]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return operator(*cast, *arguments[3:])

    operator.py_impl(key)(with_autocast)
