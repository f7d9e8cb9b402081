"""Whether PyTorch has an accelerator of its own on this machine, asked by another process.

torch.cuda.is_available() starts CUDA's driver in the process that asks, and PyTorch then refuses CUDA in every process
that is forked from it (torch.xpu likewise). `import torch` must not take that from programs which never asked for
`ocl`. So a short-lived process asks the driver itself, without PyTorch, and only where PyTorch was built for it.
"""

import ctypes
import functools
import subprocess
import sys
from pathlib import Path


def _kind() -> tuple[str, str, int] | None:
    """What this PyTorch was built for besides the CPU: (name of the device, driver to ask, least major version)."""
    import torch

    if torch.version.cuda:
        return "cuda", "cuda", int(torch.version.cuda.split(".")[0])
    if getattr(torch.version, "hip", None):
        return "cuda", "hip", 0
    if getattr(torch.version, "xpu", None):
        return "xpu", "xpu", 0
    return None


@functools.cache
def other() -> str | None:
    """ "cuda" or "xpu" where PyTorch can use such a device here, otherwise None."""
    import torch

    kind = _kind()
    if kind is None:
        return None
    name, driver, major = kind
    if not sys.executable:  # an embedded interpreter has nothing to start; the answer counts for more than fork()
        return name if getattr(torch, name).is_available() else None
    libraries = str(Path(torch.__file__).parent / "lib")
    try:
        command = [sys.executable, "-I", "-S", __file__, driver, str(major), libraries]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return name if int(answer.stdout.split()[-1]) > 0 else None
    except (subprocess.CalledProcessError, ValueError, IndexError):
        return None  # a driver that crashes serves nobody
    except (OSError, subprocess.TimeoutExpired):
        return name  # not known: leave the machine to the device that its user installed PyTorch for


def cuda_devices(major: int, _libraries: str) -> int:
    """Devices of NVIDIA's driver; 0 where it is too old for a PyTorch that was built with CUDA `major`."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return 0
    if version.value // 1000 < major or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def hip_devices(_major: int, libraries: str) -> int:
    """Devices of AMD's HIP runtime, which PyTorch's wheels bring along."""
    bundled = sorted(str(file) for file in Path(libraries).glob("libamdhip64.so*"))
    for name in [*bundled, "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"]:
        try:
            runtime = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        return count.value if runtime.hipGetDeviceCount(ctypes.byref(count)) == 0 else 0
    return 0


def xpu_devices(_major: int, _libraries: str) -> int:
    """GPUs of Intel's Level Zero drivers."""
    loader = ctypes.CDLL("libze_loader.so.1")
    gpus_only, drivers, total = 1, ctypes.c_uint32(0), 0
    if loader.zeInit(gpus_only) != 0 or loader.zeDriverGet(ctypes.byref(drivers), None) != 0:
        return 0
    handles = (ctypes.c_void_p * max(drivers.value, 1))()
    loader.zeDriverGet(ctypes.byref(drivers), handles)
    for handle in handles[: drivers.value]:
        count = ctypes.c_uint32(0)
        if loader.zeDeviceGet(ctypes.c_void_p(handle), ctypes.byref(count), None) == 0:
            total += count.value
    return total


if __name__ == "__main__":
    ask = {"cuda": cuda_devices, "hip": hip_devices, "xpu": xpu_devices}[sys.argv[1]]
    try:
        print(ask(int(sys.argv[2]), sys.argv[3]))
    except OSError:  # no driver is installed
        print(0)
