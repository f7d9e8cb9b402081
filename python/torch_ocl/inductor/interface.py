"""The device `ocl` as Dynamo sees devices. Imported in the middle of Inductor's own imports: imports nothing of it."""

from typing import Any

import torch
from torch._dynamo import device_interface

from .. import ocl
from ..ocl.device import exchange_device as _exchange, maybe_exchange_device as _maybe_exchange


class _Properties:
    """Device properties under the names that Inductor's heuristics look for."""

    def __init__(self, properties: Any) -> None:
        self.name = properties.name
        # Inductor splits no reduction with 64 results for each of these; a task here takes strips of 1024.
        self.multi_processor_count = properties.compute_units * (64 if properties.style == "cpu" else 1)
        self.total_memory = properties.global_memory
        self.warp_size = 32
        self.max_threads_per_multi_processor = 2048
        self.regs_per_multiprocessor = None
        self.major = None


class OclInterface(device_interface.DeviceInterface):
    device = ocl.device
    Event = ocl.Event
    Stream = ocl.Stream

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            ocl.set_device(device)

        @staticmethod
        def current_device() -> int:
            return int(ocl.current_device())

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return _Properties(ocl.get_device_properties(device))

    current_device = staticmethod(ocl.current_device)
    set_device = staticmethod(ocl.set_device)
    device_count = staticmethod(ocl.device_count)
    is_available = staticmethod(ocl.is_available)
    stream = staticmethod(ocl.stream)
    current_stream = staticmethod(ocl.current_stream)
    set_stream = staticmethod(ocl.set_stream)
    synchronize = staticmethod(ocl.synchronize)
    exchange_device = staticmethod(_exchange)
    maybe_exchange_device = staticmethod(_maybe_exchange)
    memory_allocated = staticmethod(ocl.memory_allocated)

    @classmethod
    def get_device_properties(cls, device: Any = None) -> Any:
        return cls.Worker.get_device_properties(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> Any:
        return ocl.get_device_properties(device).name

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        properties = ocl.get_device_properties()
        return dtype not in (torch.float64, torch.complex128) or bool(properties.fp64)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        ocl.set_stream(ocl.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False

    @staticmethod
    def raise_if_triton_unavailable(device: Any = None) -> None:
        raise RuntimeError("Triton has no code generator for ocl devices")

    # torch 2.15
    @staticmethod
    def is_gpu() -> bool:
        return True

    @staticmethod
    def exposes_streams() -> bool:
        return True

    @staticmethod
    def get_cache_system_info() -> dict[str, Any]:
        from .upstream import system_info

        return system_info()
