"""What a device can do at most, measured: multiply-adds from registers, and bytes per second of a streaming sum."""

import statistics
import time

import torch

# Twelve independent chains hide the latency of the multiply-add; the vector width is that of the widest CPU registers, and harmless elsewhere.
_CHAINS = 12
_SOURCE = (
    "__kernel void multiply_add(__global float16* y, int count) {\n"
    + "".join(f"  float16 a{i} = (float16)(get_global_id(0) + {i});\n" for i in range(_CHAINS))
    + "  const float16 m = (float16)0.999f, b = (float16)0.001f;\n  for (int k = 0; k < count; ++k) {\n"
    + "".join(f"    a{i} = fma(a{i}, m, b);\n" for i in range(_CHAINS))
    + "  }\n  y[get_global_id(0)] = "
    + " + ".join(f"a{i}" for i in range(_CHAINS))
    + ";\n}\n"
)


def _seconds(function, repeat=7):
    function()
    samples = []
    for _ in range(repeat):
        begin = time.perf_counter()
        function()
        samples.append(time.perf_counter() - begin)
    return min(samples), statistics.median(samples)


def peaks(device):
    """{"flops": ..., "bytes": ...} per second of an `ocl` device; the best of some runs, because a peak is what is possible."""
    device = torch.device(device)
    properties = torch.ocl.get_device_properties(device)
    items = properties.compute_units * (2048 if properties.is_gpu else 4)
    count = 1 << (14 if properties.is_gpu else 17)
    kernel = torch.ocl.compile_kernel(_SOURCE)
    y = torch.zeros(items * 16, device=device)
    group = 64 if properties.is_gpu else 1

    def multiply_add():
        kernel(y, count, global_size=items, local_size=group)
        torch.accelerator.synchronize(device)

    a, b = (torch.ones(1 << 25, device=device) for _ in range(2))

    def stream():
        a.add_(b)
        torch.accelerator.synchronize(device)

    return {"flops": 2 * 16 * _CHAINS * items * count / _seconds(multiply_add)[0], "bytes": 3 * a.numel() * 4 / _seconds(stream)[0]}
