"""What a device can do at most, measured: multiply-adds from registers, and bytes per second of a streaming sum."""

import statistics
import time

import torch

# Twelve independent chains hide the latency of the multiply-add. Vectors of 64 bytes, and of 32: twelve of the wider
# ones do not fit into 16 registers of 32 bytes.
_CHAINS = 12
_WIDTHS = (16, 8)


def _source(width):
    vector = f"float{width}"
    return (
        f"__kernel void multiply_add(__global {vector}* y, int count) {{\n"
        + "".join(f"  {vector} a{i} = ({vector})(get_global_id(0) + {i});\n" for i in range(_CHAINS))
        + f"  const {vector} m = ({vector})0.999f, b = ({vector})0.001f;\n  for (int k = 0; k < count; ++k) {{\n"
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
    """{"flops": ..., "bytes": ...} per second of an `ocl` device; the best of some runs, because a peak is what is
    possible."""
    device = torch.device(device)
    properties = torch.ocl.get_device_properties(device)
    items = properties.compute_units * (2048 if properties.is_gpu else 4)
    count = 1 << (14 if properties.is_gpu else 17)
    y = torch.zeros(items * max(_WIDTHS), device=device)
    group = 64 if properties.is_gpu else 1

    def flops(width):
        kernel = torch.ocl.compile_kernel(_source(width))

        def multiply_add():
            kernel(y, count, global_size=items, local_size=group)
            torch.accelerator.synchronize(device)

        return 2 * width * _CHAINS * items * count / _seconds(multiply_add)[0]

    a, b = (torch.ones(1 << 25, device=device) for _ in range(2))

    def stream():
        a.add_(b)
        torch.accelerator.synchronize(device)

    return {"flops": max(map(flops, _WIDTHS)), "bytes": 3 * a.numel() * 4 / _seconds(stream)[0]}


def larger(*measured):
    """Of several results of peaks() the larger of each: virtual processors are slowed down for minutes at times."""
    return {kind: max(peak[kind] for peak in measured) for kind in measured[0]}
