"""Automatic mixed precision: `torch.autocast("ocl")` and `torch.amp.GradScaler("ocl")`."""

import functools
from typing import Any

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may use. Both are storage types; kernels accumulate in float32."""
    return [torch.float16, torch.bfloat16]


class autocast(torch.amp.autocast):
    """`torch.autocast("ocl", ...)` under torch.cuda.amp's old name."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("ocl", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


GradScaler: Any = functools.partial(torch.amp.GradScaler, "ocl")
custom_fwd: Any = functools.partial(torch.amp.custom_fwd, device_type="ocl")
custom_bwd: Any = functools.partial(torch.amp.custom_bwd, device_type="ocl")
