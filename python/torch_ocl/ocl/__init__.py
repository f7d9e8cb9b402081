"""`torch.ocl`: the names and meanings of `torch.cuda`, for OpenCL devices."""

import sys

import torch

from .. import _inductor
from . import _utils, amp, device as _device, fallback as _fallback, memory, random, streams
from ._lifetime import (
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    init,
    is_initialized,
)
from .device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    exchange_device as _exchange_device,
    get_device_capability,
    get_device_name,
    get_arch_list,
    get_device_properties,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_tf32_supported,
    maybe_exchange_device as _maybe_exchange_device,
    set_device,
    synchronize,
)
from .amp import get_amp_supported_dtype
from .fallback import fallback_policy, fallbacks, reset_fallbacks, set_fallback_policy
from .memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    memory_usage_limit,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .kernels import CompiledKernel, LocalMemory, compile_kernel
from .programs import build_counts, cache_folder, cache_state, clear_cache
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

# Where code written for torch.cuda looks for them.
AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True

# torch.utils.checkpoint reads this plain attribute to decide whether there is random state to save.
_initialized = False


def __getattr__(name):
    if name == "default_generators":
        return random.default_generators()
    if name in _inductor.NAMES:
        return _inductor.codegen()
    raise AttributeError(f"module 'torch.ocl' has no attribute {name!r}")


def _register():
    """Puts this module at torch.ocl, its parts at torch.ocl.memory and so on."""
    torch._register_device_module("ocl", sys.modules[__name__])
    for part in ("amp", "memory", "random", "streams"):
        sys.modules[f"torch.ocl.{part}"] = sys.modules[f"{__name__}.{part}"]


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("sys", "torch")]
