"""The few places where PyTorch knows its own accelerators by name and has to be told about this one."""

import functools
from typing import Any

import torch

from . import _data_parallel, _distributed, _jagged, _sharing, ocl


@functools.cache
def apply() -> None:
    """Installs every patch; a second call changes nothing."""
    _patch_dlpack_device()
    _patch_dlpack_without_copy()
    _sharing.register()
    _data_parallel.apply()
    _jagged.apply()
    _distributed.register()


def _patch_dlpack_device() -> None:
    """torch 2.13 compares the device type with the literal "privateuse1", which a renamed device never is."""
    original = torch.Tensor.__dlpack_device__
    if "privateuse1" not in original.__code__.co_consts:
        return

    @functools.wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if not torch.overrides.has_torch_function_unary(self) and self.device.type == "ocl":
            from torch.utils.dlpack import DLDeviceType

            return DLDeviceType.kDLExtDev, self.device.index or 0
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]


def _patch_dlpack_without_copy() -> None:
    """numpy.from_dlpack(x, device="cpu", copy=False): memory that the device shares with the host is exported as it is.

    Only when the consumer forbids a copy: work issued to the device later is not waited for by whoever reads such
    memory.
    """
    original = torch.Tensor.__dlpack__

    @functools.wraps(original)
    def __dlpack__(
        self: torch.Tensor, *, dl_device: tuple[Any, int] | None = None, copy: bool | None = None, **rest: Any
    ) -> Any:
        if (
            copy is not False
            or dl_device is None
            or torch.overrides.has_torch_function_unary(self)
            or self.device.type != "ocl"
        ):
            return original(self, dl_device=dl_device, copy=copy, **rest)
        if int(dl_device[0]) != 1 or not ocl.get_device_properties(self.device).unified_memory:
            return original(self, dl_device=dl_device, copy=copy, **rest)
        if self.requires_grad or self.is_conj() or self.is_neg():
            return original(self, **rest)  # says what is wrong
        (host,) = torch.ops.aten._to_cpu([self])  # waits for the stream
        return original(host, copy=False, **{name: value for name, value in rest.items() if name != "stream"})

    torch.Tensor.__dlpack__ = __dlpack__  # type: ignore[method-assign]
