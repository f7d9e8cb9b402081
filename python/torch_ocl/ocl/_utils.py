"""Device arguments as the functions of `torch.ocl` take them."""

import torch

from .. import _core
from . import _lifetime

# How a device is named: a torch.device, a string such as "ocl:1", an index, or None for the current device.
Device = torch.device | str | int | None


def _current_device() -> int:
    _lifetime._lazy_init()
    return _core.core().current_device()


def _get_device_index(device: Device = None, optional: bool = True, allow_cpu: bool = False) -> int:
    """Index of `device`: None or "ocl" (the current device), an int, "ocl:1", or a torch.device of this type."""
    if device is None:
        if not optional:
            raise ValueError("an ocl device is expected, not None")
        return _current_device()
    if isinstance(device, bool):
        raise TypeError("a device is an index, a string or a torch.device, not a bool")
    if isinstance(device, int):
        return device if device >= 0 else _current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        raise TypeError(f"a device is an index, a string or a torch.device, not {type(device).__name__}")
    if device.type == "cpu" and allow_cpu:
        return -1
    if device.type != "ocl":
        raise ValueError(f"an ocl device is expected, not {device}")
    return _current_device() if device.index is None else device.index
