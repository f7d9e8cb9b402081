"""Automatic mixed precision: `torch.autocast("ocl")` and `torch.amp.GradScaler("ocl")`."""

import functools

import torch


def get_amp_supported_dtype():
    """Types that autocast may use. Both are storage types; kernels accumulate in float32."""
    return [torch.float16, torch.bfloat16]


class autocast(torch.amp.autocast):
    """`torch.autocast("ocl", ...)` under torch.cuda.amp's old name."""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        super().__init__("ocl", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


GradScaler = functools.partial(torch.amp.GradScaler, "ocl")
custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="ocl")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="ocl")
