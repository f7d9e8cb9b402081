"""Time per image over batch sizes and image sizes, with one compute unit and with all: is there a cliff?

`python -m benchmarks.scaling MODEL KIND DEVICES ROUNDS` is what the children run; it prints one JSON line. A child is
needed because drivers and OpenMP read the number of their threads once.
"""

import itertools
import json
import os
import subprocess
import sys

BATCHES = (1, 2, 4, 8, 16, 32)
SIZES = (64, 96, 128, 160, 192, 224, 256, 320, 384)
BATCH_OF_SIZES, SIZE_OF_BATCHES = 4, 224
CLIFF = 1.25  # a step to the next larger work that makes an image (a pixel) this much dearer


def measure(name, training, devices, rounds):
    """{device: {"batch": {batch: seconds per image}, "size": {edge: seconds per image}}}"""
    import torch

    from .cases import network_case
    from .runner import waiting
    from .timing import interleaved

    devices = [torch.device(device) for device in devices]
    result = {str(device): {"batch": {}, "size": {}} for device in devices}
    for axis, points in (
        ("batch", [(batch, SIZE_OF_BATCHES) for batch in BATCHES]),
        ("size", [(BATCH_OF_SIZES, size) for size in SIZES]),
    ):
        for batch, size in points:
            case = network_case(name, training, batch, size=size)
            timings = interleaved({str(device): waiting(case.make(device), device) for device in devices}, rounds)
            for device, timing in timings.items():
                result[device][axis][batch if axis == "batch" else size] = timing.median / batch
    return result


def threads(count):
    """Environment of a process whose native PyTorch, PoCL and Intel's runtime have `count` threads."""
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count), "POCL_MAX_PTHREAD_COUNT": str(count),
            "CL_CONFIG_CPU_TBB_NUM_WORKERS": str(count), "BENCHMARK_CPUS": str(count)}  # fmt: skip


def scaling(name, training, devices, rounds):
    """{threads: what measure() returns, or {"error"}} for one thread and for all."""
    results = {}
    for count in sorted({1, len(os.sched_getaffinity(0))}):
        command = [
            sys.executable,
            "-m",
            "benchmarks.scaling",
            name,
            "train" if training else "eval",
            ",".join(devices),
            str(rounds),
        ]
        answer = subprocess.run(command, env=os.environ | threads(count), stdout=subprocess.PIPE, text=True)
        results[str(count)] = (
            json.loads(answer.stdout.splitlines()[-1])
            if answer.returncode == 0
            else {"error": f"exit status {answer.returncode}"}
        )
    return results


def cliffs(measured):
    """Lines about steps that make an image (over batches) or a pixel (over sizes) dearer by more than CLIFF."""
    for device, axes in measured.items():
        for axis, times in axes.items():
            points = [(int(at), seconds / (int(at) ** 2 if axis == "size" else 1)) for at, seconds in times.items()]
            for (before, cheap), (at, dear) in itertools.pairwise(points):
                if dear > CLIFF * cheap:
                    unit = "pixel" if axis == "size" else "image"
                    yield f"{device}, {axis} {before} to {at}: {dear / cheap:.2f} times the time per {unit}"


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["BENCHMARK_CPUS"])])
    import torch_ocl  # noqa: F401  registers `ocl` where autoload is off

    print(json.dumps(measure(sys.argv[1], sys.argv[2] == "train", sys.argv[3].split(","), int(sys.argv[4]))))
