"""`torch.ocl`: the names and meanings of `torch.cuda`, for OpenCL devices."""

import sys
from typing import Any

import torch

from .. import inductor
from . import _utils as _utils, amp, memory, random, streams
from ._graphed_callables import make_graphed_callables
from ._lifetime import (
    _is_in_bad_fork as _is_in_bad_fork,
    _lazy_call as _lazy_call,
    _lazy_init as _lazy_init,
    init,
    is_initialized,
)
from .amp import get_amp_supported_dtype
from .device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    exchange_device as _exchange_device,  # noqa: F401  what PyTorch calls
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_tf32_supported,
    maybe_exchange_device as _maybe_exchange_device,  # noqa: F401  what PyTorch calls
    set_device,
    synchronize,
)
from .fallback import fallback_policy, fallbacks, reset_fallbacks, set_fallback_policy
from .graphs import OclGraph, graph, graph_pool_handle, is_current_stream_capturing
from .kernels import CompiledKernel, LocalMemory, compile_kernel
from .memory import (
    MemPool,
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
    use_mem_pool,
)
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
    set_stream,
    stream,
)

__all__ = [
    "AcceleratorError",
    "CompiledKernel",
    "Event",
    "LocalMemory",
    "MemPool",
    "OclGraph",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "build_counts",
    "cache_folder",
    "cache_state",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "clear_cache",
    "compile_kernel",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "fallback_policy",
    "fallbacks",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "has_half",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage_limit",
    "random",
    "reset_accumulated_memory_stats",
    "reset_fallbacks",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_fallback_policy",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
]

# Where code written for torch.cuda looks for them.
AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError
has_half = True

# torch.utils.checkpoint reads this plain attribute to decide whether there is random state to save.
_initialized = False


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random.default_generators()
    if name in inductor.NAMES:
        return inductor.code_generator(name)
    raise AttributeError(f"module 'torch.ocl' has no attribute {name!r}")


def _register() -> None:
    """Puts this module at torch.ocl, its parts at torch.ocl.memory and so on."""
    torch._register_device_module("ocl", sys.modules[__name__])
    for part in ("amp", "graphs", "memory", "random", "streams"):
        sys.modules[f"torch.ocl.{part}"] = sys.modules[f"{__name__}.{part}"]
