"""safetensors knows devices by name and refuses `ocl`, but takes a number for whatever PyTorch's accelerator is.

So a name of this device becomes its number: `load_file(file, device="ocl")` and `safe_open(file, "pt", device="ocl:1")`
read tensors from the mapped file to the device, without a copy on the CPU between.
"""

import sys
from types import ModuleType
from typing import Any

import torch

from . import _imports

_USERS = ("safetensors", "safetensors.torch")


def _number(device: Any) -> Any:
    """The number of an `ocl` device, or the device as it was given."""
    if not isinstance(device, (str, torch.device)) or str(device).split(":")[0] != "ocl":
        return device
    wanted = torch.device(device)
    return torch.ocl.current_device() if wanted.index is None else wanted.index


def _wrapped(original: Any) -> Any:
    """safe_open, which cannot be derived from: a class whose instances are the original's."""

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    class safe_open(metaclass=Kind):
        __doc__ = original.__doc__

        def __new__(cls, *positional: Any, **options: Any) -> Any:
            if len(positional) > 2:
                positional = (*positional[:2], _number(positional[2]), *positional[3:])
            if "device" in options:
                options["device"] = _number(options["device"])
            return original(*positional, **options)

    return safe_open


def _patch(module: ModuleType) -> None:
    original = module.safe_open
    module.safe_open = wrapped = _wrapped(original)  # type: ignore[attr-defined]
    for name in _USERS:  # where the library was imported first
        user = sys.modules.get(name)
        if user is not None and getattr(user, "safe_open", None) is original:
            user.safe_open = wrapped  # type: ignore[attr-defined]


def apply() -> None:
    """Puts the above in front of safetensors, when it is imported or where it has been."""
    _imports.after("safetensors._safetensors_rust", _patch)
