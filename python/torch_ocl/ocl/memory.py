"""Device memory: statistics, limits and pools of the caching allocator."""

import contextlib
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .. import _core
from .._interface import Core
from . import _lifetime
from ._utils import Device, _get_device_index


def _ready() -> Core:
    _lifetime._lazy_init()
    return _core.core()


def empty_cache() -> None:
    """Gives unused cached memory back to the driver."""
    if _lifetime.is_initialized():
        _core.core().empty_cache()


def memory_stats(device: Device = None) -> OrderedDict[str, int]:
    """Statistics under torch.cuda's flat names, for example "allocated_bytes.all.peak". Empty before the first use."""
    if not _lifetime.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(_core.core().memory_stats(_get_device_index(device)).items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """memory_stats() with a dictionary for every part of a name between dots."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes in use by tensors."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes in use by tensors since the start or the last reset_peak_memory_stats()."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the allocator holds, in use or cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes that the allocator held since the start or the last reset_peak_memory_stats()."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets every peak of memory_stats() to the current value."""
    _ready().reset_peak_memory_stats(_get_device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the totals of memory_stats() ("allocated" and "freed", retries and failures) to 0."""
    _ready().reset_accumulated_memory_stats(_get_device_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def host_memory_stats() -> OrderedDict[str, int]:
    """Statistics of the pinned host memory that PyTorch caches, under torch.cuda's names.

    Empty before the first use.
    """
    return (
        OrderedDict()
        if not _lifetime.is_initialized()
        else OrderedDict(sorted(_core.core().host_memory_stats().items()))
    )


def get_allocator_backend() -> str:
    """The device memory allocator: "native", torch_ocl's caching one, is the only one."""
    return "native"


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | None = None) -> int:
    """Address of `size` bytes of device memory for use on `stream`; caching_allocator_delete() gives them back.

    Raises torch.OutOfMemoryError when there is no room.
    """
    index = _get_device_index(device)
    return _ready().allocate(
        index, int(size), stream.stream_id if stream is not None else torch.accelerator.current_stream(index).stream_id
    )


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back what caching_allocator_alloc() returned."""
    _ready().release(mem_ptr)


def device_memory_used(device: Device = None) -> int:
    """Bytes of the device in use, as far as mem_get_info() knows."""
    free, total = mem_get_info(device)
    return total - free


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes. OpenCL has no call for free memory: what others use counts only on devices that share memory
    with the host."""
    free, total = _ready().memory_info(_get_device_index(device))
    return free, total


def memory_snapshot(device: Device = None) -> list[dict[str, Any]]:
    """Segments and blocks of the allocator, as a list of dictionaries."""
    return _ready().memory_snapshot(_get_device_index(device))


def _snapshot(device: Device = None) -> dict[str, Any]:
    """What torch.cuda.memory._snapshot() returns, without a history: no stack traces are recorded."""
    indices = range(_ready().device_count()) if device is None else [_get_device_index(device)]
    segments = [segment for index in indices for segment in memory_snapshot(index)]
    for segment in segments:
        segment["frames"] = []
        for block in segment["blocks"]:
            block["frames"] = []
    return {"segments": segments, "device_traces": [[] for _ in indices], "allocator_settings": {}}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes _snapshot() for pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


PoolId = tuple[int, int]  # names a pool, as in torch.cuda; the first number is 0


class MemPool:
    """A pool of the allocator: its memory is given only to those who allocate under use_mem_pool(), or for graphs.

    Free memory of the pool stays in it while the pool or a graph that uses it is there; afterwards empty_cache() gives
    it back. `allocator` must be None: there is one allocator.
    """

    def __init__(self, allocator: None = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError("an ocl device has one allocator; torch.ocl.MemPool takes none of the user's")
        self._core = _ready()
        self._number = self._core.new_pool()
        self._devices: set[int] = set()
        self._keep(_get_device_index())

    def _keep(self, device: int) -> None:
        if device not in self._devices:
            self._devices.add(device)
            self._core.retain_pool(device, self._number)
            weakref.finalize(self, self._core.release_pool, device, self._number).atexit = False

    @property
    def id(self) -> PoolId:
        """Names the pool, for torch.ocl.graph(pool=...)."""
        return (0, self._number)

    def use_count(self) -> int:
        """How many keep the pool: this object for each device that it was used on, graphs, use_mem_pool()."""
        return sum(self._core.pool_users(device, self._number) for device in self._devices)

    def snapshot(self) -> list[dict[str, Any]]:
        """Its segments, as memory_snapshot() has them."""
        segments = [segment for device in sorted(self._devices) for segment in memory_snapshot(device)]
        return [segment for segment in segments if tuple(segment["segment_pool_id"]) == self.id]


def _pool_number(pool: PoolId | MemPool) -> int:
    return int((pool.id if isinstance(pool, MemPool) else pool)[1])


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Context manager: what this thread allocates on the device comes from the pool."""
    index = _get_device_index(device)
    pool._keep(index)
    core, number = _ready(), _pool_number(pool)
    core.retain_pool(index, number)
    before = core.use_pool(index, number)
    try:
        yield
    finally:
        core.use_pool(index, before)
        core.release_pool(index, number)


_limits: dict[int, int] = {}


def memory_usage_limit(bytes: int, device: Device = None) -> None:
    """At most this many bytes are reserved on the device (0: no limit); beyond it torch.OutOfMemoryError is raised."""
    index = _get_device_index(device)
    _ready().set_memory_limit(index, int(bytes))
    _limits[index] = int(bytes)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """At most this fraction of the device's memory is reserved; beyond it torch.OutOfMemoryError is raised.

    Raises ValueError for a fraction that is not between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    total = mem_get_info(device)[1]
    memory_usage_limit(0 if fraction == 1 else max(1, int(total * fraction)), device)


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The fraction of the device's memory that may be reserved, between 0 and 1."""
    index = _get_device_index(device)
    limit = _limits.get(index, 0)
    return min(1.0, limit / mem_get_info(index)[1]) if limit else 1.0


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024 or unit == "GiB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return ""


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the statistics, for people."""
    index = _get_device_index(device)
    stats = memory_stats(index)
    pools: tuple[str, ...] = ("all",) if abbreviated else ("all", "large_pool", "small_pool")
    rows = [f"{f'ocl:{index}':32} {'now':>12} {'peak':>12} {'allocated':>12} {'freed':>12}"]
    for metric in (
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "inactive_split_bytes",
        "requested_bytes",
        "allocation",
        "segment",
    ):
        for pool in pools:
            key = f"{metric}.{pool}."
            if key + "current" not in stats:
                continue
            show: Callable[[int], str] = _size if metric.endswith("bytes") else str
            values = " ".join(
                f"{show(stats.get(key + part, 0)):>12}" for part in ("current", "peak", "allocated", "freed")
            )
            rows.append(f"{metric + ' ' + pool:32} {values}")
    rows += [f"{name:32} {stats[name]:>12}" for name in ("num_alloc_retries", "num_ooms") if name in stats]
    return "\n".join(rows)
