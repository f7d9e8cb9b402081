"""Tells transformers' continuous batching (`generate_batch`) how much memory there is for its cache of keys and values.

It asks CUDA, XPU and MPS by name, and takes all of the machine's memory where it finds none of them: more than a device
gives. On a device that shares memory with the host, half of what is free is left to everything else.
"""

import functools
from types import ModuleType

import torch

from . import _imports, ocl
from .ocl.memory import _limits


def usable_memory(index: int | None = None) -> tuple[int, int]:
    """(bytes that a cache may take, bytes in all) of a device."""
    index = ocl.current_device() if index is None else index
    free, total = ocl.mem_get_info(index)
    usable = free // 2 if ocl.get_device_properties(index).unified_memory else free
    limit = _limits.get(index, 0)
    if limit:
        total, usable = min(total, limit), min(usable, max(0, limit - ocl.memory_reserved(index)))
    return usable, total


def _report_memory(utils: ModuleType) -> None:
    original = getattr(utils, "get_device_and_memory_breakdown", None)
    if original is None:  # another version
        return

    @functools.wraps(original)
    def get_device_and_memory_breakdown() -> tuple[torch.device, int, int, int]:
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        if accelerator is None or accelerator.type != "ocl":
            device, total, reserved, allocated = original()
            return device, total, reserved, allocated
        ocl.synchronize()
        ocl.empty_cache()
        usable, total = usable_memory()
        return torch.device("ocl", ocl.current_device()), total, ocl.memory_reserved(), total - usable

    utils.get_device_and_memory_breakdown = get_device_and_memory_breakdown  # type: ignore[attr-defined]


def _keep_constructors(_: ModuleType) -> None:
    """Makes PyTorch's list of functions that obey `with torch.device(...)`, which it makes when it first needs it.

    from_pretrained puts another function in the place of torch.linspace while it makes a model inside of such a block.
    A list that was made there has that function, and torch.linspace obeys no block any more.
    """
    from torch.utils._device import _device_constructors

    _device_constructors()


def watch() -> None:
    """Reports memory as soon as transformers asks for it, and lets it keep the blocks of GGUF files."""
    _imports.after("transformers.modeling_utils", _keep_constructors)
    _imports.after("transformers.generation.continuous_batching.utils", _report_memory)
    _imports.after("transformers.quantizers.auto", _imports.by_name("gguf._pretrained.install"))
