"""Runs cases on several devices of one process: outputs are compared first, then rounds alternate between the
devices."""

import datetime
import gc
import os
import platform
import re
import subprocess

import torch

from .timing import interleaved


def synchronize(device):
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def waiting(work, device):
    """The work, and waiting for it."""
    if device.type == "cpu":
        return work.run

    def run():
        work.run()
        synchronize(device)

    return run


def largest_difference(outputs, expected):
    """Largest relative L2 difference over pairs of outputs; infinity where one has other shapes or either is not
    finite."""
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        value, truth = output.detach().cpu().double(), reference.detach().cpu().double()
        if value.shape != truth.shape or not (value.isfinite().all() and truth.isfinite().all()):
            return float("inf")
        worst = max(worst, ((value - truth).norm() / truth.norm().clamp_min(1e-30)).item())
    return worst


OF_NATIVE_ERROR = (
    1.5  # where float32 itself is further from float64 than the tolerance: the allowed multiple of native's distance
)


def judge_by_reference(case, expected, outputs):
    """{"to_float64": {device: (native's distance from float64, the device's)}} of outputs further from native's than
    the tolerance; with "error" where a distance is more than OF_NATIVE_ERROR allows, or where nothing says what float64
    gives."""
    if case.reference is None:
        return {"error": ""}
    truth = case.reference()
    native = largest_difference(expected, truth)
    distances = {name: (native, largest_difference(values, truth)) for name, values in outputs.items()}
    if all(distance <= OF_NATIVE_ERROR * native < float("inf") for _, distance in distances.values()):
        return {"to_float64": distances}
    return {"to_float64": distances, "error": f"; distances from float64, native's first: {distances}"}


def run_case(case, devices, rounds):
    """Result of one case: {"difference", "devices": {name: {"seconds", "spread", "samples"}}, "ratio", ...} or
    {"error"}."""
    result = {"group": case.group, "operations": case.operations, "bytes": case.bytes}
    try:
        works = {device: case.make(device) for device in devices}
        expected = [value.detach().cpu() for value in works[devices[0]].outputs()]
        before = torch.ocl.fallbacks() if hasattr(torch, "ocl") else {}
        outputs = {str(device): [value.detach().cpu() for value in works[device].outputs()] for device in devices[1:]}
        result["difference"] = {name: largest_difference(values, expected) for name, values in outputs.items()}
        if hasattr(torch, "ocl"):
            result["fallbacks"] = sorted(
                name for name, count in torch.ocl.fallbacks().items() if count != before.get(name, 0)
            )
        if any(not value <= case.tolerance for value in result["difference"].values()):
            result |= judge_by_reference(case, expected, outputs)
        if "error" in result:
            result["error"] = f"outputs differ: {result['difference']}, allowed {case.tolerance}" + result["error"]
            return result
        timings = interleaved({str(device): waiting(work, device) for device, work in works.items()}, rounds)
    except (RuntimeError, NotImplementedError, ValueError) as error:
        result["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return result
    finally:
        works = None
        gc.collect()
    result["contended"] = any(timing.contended for timing in timings.values())
    result["devices"] = {
        name: {"seconds": t.median, "spread": t.spread, "samples": t.samples} for name, t in timings.items()
    }
    native = timings[str(devices[0])].median
    result["ratio"] = {name: native / timing.median for name, timing in timings.items() if name != str(devices[0])}
    return result


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            return re.search(r"model name\s*: (.*)", file.read())[1]
    except (OSError, TypeError):
        return platform.processor()


def _commit():
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def description(devices):
    """What a reader needs to know to trust the numbers."""
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "native": str(devices[0]),
    }
    for device in devices[1:]:
        module = getattr(torch, device.type)
        facts[str(device)] = repr(module.get_device_properties(device))
    return facts


def memory_and_builds(device):
    """Peak memory, and how many programs the run compiled and loaded."""
    if device.type != "ocl":
        return {}
    compiled, loaded = torch.ocl.build_counts()
    return {"peak_bytes": torch.ocl.max_memory_allocated(device),
            "reserved_bytes": torch.ocl.max_memory_reserved(device),
            "programs_compiled": compiled, "programs_loaded": loaded}  # fmt: skip
