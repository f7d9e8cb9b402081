"""The few places where PyTorch knows its own accelerators by name and has to be told about this one."""

import contextlib
import functools

import torch

from . import _data_parallel, _sharing


def apply():
    """Installs every patch; a second call changes nothing."""
    if getattr(apply, "done", False):
        return
    apply.done = True
    _patch_dlpack_device()
    _patch_dlpack_without_copy()
    _patch_module_moves()
    _sharing.register()
    _data_parallel.apply()


def _patch_dlpack_device():
    """torch 2.13 compares the device type with the literal "privateuse1", which a renamed device never is."""
    original = torch.Tensor.__dlpack_device__
    if "privateuse1" not in original.__code__.co_consts:
        return

    @functools.wraps(original)
    def __dlpack_device__(self):
        if not torch.overrides.has_torch_function_unary(self) and self.device.type == "ocl":
            from torch.utils.dlpack import DLDeviceType

            return DLDeviceType.kDLExtDev, self.device.index or 0
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _patch_dlpack_without_copy():
    """numpy.from_dlpack(x, device="cpu", copy=False): memory that the device shares with the host is exported as it is.

    Only when the consumer forbids a copy: work issued to the device later is not waited for by whoever reads such memory.
    """
    original = torch.Tensor.__dlpack__

    @functools.wraps(original)
    def __dlpack__(self, *, dl_device=None, copy=None, **rest):
        if copy is not False or dl_device is None or torch.overrides.has_torch_function_unary(self) or self.device.type != "ocl":
            return original(self, dl_device=dl_device, copy=copy, **rest)
        if int(dl_device[0]) != 1 or not torch.ocl.get_device_properties(self.device).unified_memory:
            return original(self, dl_device=dl_device, copy=copy, **rest)
        if self.requires_grad or self.is_conj() or self.is_neg():
            return original(self, **rest)  # says what is wrong
        (host,) = torch.ops.aten._to_cpu([self])  # waits for the stream
        return original(host, copy=False, **{name: value for name, value in rest.items() if name != "stream"})

    torch.Tensor.__dlpack__ = __dlpack__


@contextlib.contextmanager
def _swapping(module, target):
    """Parameters keep their identity while they move between `ocl` and another device type.

    PyTorch assigns `.data` for the devices it counts as dense and makes new Parameter objects for the others, which tears tied
    weights apart and leaves optimizers with the old ones. Swapping the contents keeps both.
    """
    future = torch.__future__
    kinds = {parameter.device.type for parameter in module.parameters()} | {target}
    if future.get_swap_module_params_on_conversion() or "ocl" not in kinds or len(kinds) == 1:
        yield
        return
    future.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_swap_module_params_on_conversion(False)


def _patch_module_moves():
    for name in ("to", "cpu", "cuda", "xpu", "ocl", "to_empty"):
        if hasattr(torch.nn.Module, name):
            setattr(torch.nn.Module, name, _keeping_identity(name, getattr(torch.nn.Module, name)))


def _target_of(name, args, kwargs):
    """Device type that a call of Module.to and its relatives moves to, or None when it does not move."""
    if name == "to":
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        return device.type if device is not None else None
    if name == "to_empty":
        device = kwargs.get("device", args[0] if args else None)
        if isinstance(device, int):
            return "ocl"
        return torch.device(device).type if device is not None else None
    return name


def _keeping_identity(name, original):
    @functools.wraps(original)
    def moved(self, *args, **kwargs):
        try:
            target = _target_of(name, args, kwargs)
        except (TypeError, RuntimeError):
            target = None  # the original says what is wrong
        if target is None:
            return original(self, *args, **kwargs)
        with _swapping(self, target):
            return original(self, *args, **kwargs)

    return moved
