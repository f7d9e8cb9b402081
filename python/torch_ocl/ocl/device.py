"""Devices: how many, which one, what they can do."""

import functools
import os
import re
from types import SimpleNamespace
from typing import Literal

import torch

from .. import _core
from .._interface import Core
from . import _lifetime
from ._utils import Device, _current_device, _get_device_index


def device_count() -> int:
    """Number of devices (TORCH_OCL_VISIBLE_DEVICES chooses and orders them). 0 where nothing works; never raises."""
    return _lifetime.opened().device_count() if _core.loaded() else 0


def is_available() -> bool:
    """Whether there is a device to use. Never raises."""
    return device_count() > 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be used: as a storage type on every device, computed in float32 (an emulation)."""
    return is_available() and including_emulation


def _ready() -> Core:
    _lifetime._lazy_init()
    return _core.core()


def current_device() -> int:
    """Index of this thread's current device."""
    return _current_device()


def set_device(device: Device) -> None:
    """Makes `device` the current device of this thread. A negative index changes nothing.

    A launcher's local rank (LOCAL_RANK), given as an index, stands for the device of that rank: ranks share devices
    where there are fewer of them. Raises torch.AcceleratorError when there is no device of that index.
    """
    index = device if isinstance(device, int) else _get_device_index(device)
    if index >= 0:
        if index and os.environ.get("LOCAL_RANK") == str(index):
            index %= max(1, _ready().device_count())
        _ready().set_device(index)


def exchange_device(index: int) -> int:
    """Makes `index` current and returns the one before; a negative index changes nothing and returns -1."""
    return _ready().exchange_device(index) if index >= 0 else -1


maybe_exchange_device = exchange_device


def synchronize(device: Device = None) -> None:
    """Waits until everything issued to the device has finished.

    Errors of kernels surface here: torch.AcceleratorError, for an index out of range for example.
    """
    if (
        device is None and _lifetime._initialized
    ):  # as short as it can be: scripts call it around every operator that they time
        _core._core.synchronize(-1)  # type: ignore[union-attr]  # it is there when devices are open
    else:
        _ready().synchronize(_get_device_index(device))


class device:
    """Context manager that changes the current device. None and negative indices change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = exchange_device(self.idx)

    def __exit__(self, *exception: object) -> Literal[False]:
        exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that changes the current device to that of a tensor; does nothing for other tensors."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.get_device() if obj.device.type == "ocl" else None)


class _DeviceProperties(SimpleNamespace):
    """Everything that was asked of the driver or measured, and the names torch.cuda gives to some of it."""

    def __repr__(self) -> str:
        return (
            f"_OclDeviceProperties(name='{self.name}', platform='{self.platform_name}', "
            f"driver='{self.driver_version}', "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
            f"style='{self.style}')"
        )


@functools.cache
def _properties(index: int) -> _DeviceProperties:
    facts = dict(_core.core().device_properties(index))
    version = re.search(r"(\d+)\.(\d+)", facts.get("device_version", ""))
    facts["major"], facts["minor"] = (int(version[1]), int(version[2])) if version else (1, 2)
    facts["total_memory"] = facts["global_memory"]
    facts["multi_processor_count"] = facts["compute_units"]
    facts["is_integrated"] = facts["unified_memory"]
    return _DeviceProperties(**facts)


def get_device_properties(device: Device = None) -> _DeviceProperties:
    """A record of the device's capabilities (csrc/opencl/capabilities/capabilities.h) with torch.cuda's names beside
    the OpenCL ones."""
    index = _get_device_index(device)
    if not 0 <= index < _ready().device_count():
        raise AssertionError(f"Invalid device id: {index}; there are {device_count()} ocl devices")
    return _properties(index)


def get_device_name(device: Device = None) -> str:
    """Name of the device as its driver tells it."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """OpenCL version of the device as (major, minor)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether kernels of `device` may read memory of `peer_device`: only where both are the same device."""
    return _get_device_index(device) == _get_device_index(peer_device)


def get_arch_list() -> list[str]:
    """OpenCL C versions that kernels are compiled for."""
    return ["CL1.2"] if is_available() else []


def is_tf32_supported() -> bool:
    """Whether the current device has tensor cores that multiply float32 as TF32 (torch.backends.ocl.allow_tf32)."""
    return is_available() and bool(get_device_properties().tensor_cores)


def ipc_collect() -> None:
    """Nothing to do: memory is not shared between processes."""


def _device_with_index(device: Device) -> torch.device:
    return torch.device("ocl", _get_device_index(device))
