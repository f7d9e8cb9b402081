"""Finds the OpenCL loader and the drivers that pip installed, and makes both known before the core library is loaded.

Order: the system's libOpenCL.so.1, then the one of this Python environment (Intel's wheel brings one). Drivers
installed by pip lie in the environment's lib folder and have no entry in /etc/OpenCL/vendors. The Khronos loader takes
them from OCL_ICD_FILENAMES; ocl-icd knows only OCL_ICD_VENDORS, which replaces the system's list, so it gets a private
folder with the system's entries linked into it. A user who sets either variable has chosen: then nothing is changed.
"""

import ctypes
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
PIP_DRIVERS = ("libintelocl.so",)
# Intel's loader names these without a search path, so they have to be in the process before it.
LOADER_NEEDS = ("libintlc.so.5", "libirng.so", "libsvml.so", "libimf.so")

HOW_TO_INSTALL = (
    'install an OpenCL driver: pip install "torch-ocl[cpu]" (Intel\'s CPU runtime, no root needed), or as root '
    "apt install pocl-opencl-icd, or the driver of your GPU; then run `python -m torch_ocl`"
)


def environment_folders() -> list[Path]:
    """lib folders of this Python environment, without repetition."""
    prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix])
    return [Path(prefix) / "lib" for prefix in prefixes]


def _open(path: str | Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


def pip_drivers() -> list[str]:
    """Paths of the OpenCL drivers that pip put into this environment."""
    return [str(folder / name) for folder in environment_folders() for name in PIP_DRIVERS if (folder / name).exists()]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The OpenCL loader as a ctypes library, its symbols global, or None where there is none."""
    found = _open("libOpenCL.so.1")
    if found is None:
        for folder in environment_folders():
            if not (folder / "libOpenCL.so.1").exists():
                continue
            for name in LOADER_NEEDS:
                _open(folder / name)
            found = _open(folder / "libOpenCL.so.1")
            if found is not None:
                break
    if found is not None:
        _announce_drivers(found)
    return found


def path_of(loader: ctypes.CDLL) -> str | None:
    """The file a loaded library came from (None when the system cannot tell)."""
    try:
        wanted = ctypes.cast(loader.clGetPlatformIDs, ctypes.c_void_p).value
        with open("/proc/self/maps") as maps:
            for line in maps:
                begin, end = (int(part, 16) for part in line.split(maxsplit=1)[0].split("-"))
                if wanted is not None and begin <= wanted < end:
                    return line.split(maxsplit=5)[5].strip()
    except (OSError, IndexError, AttributeError):
        pass
    return None


def _is_khronos_loader(loader: ctypes.CDLL) -> bool:
    path = path_of(loader)
    try:
        return path is not None and b"OCL_ICD_FILENAMES" in Path(path).read_bytes()
    except OSError:
        return False


def _announce_drivers(loader: ctypes.CDLL) -> None:
    drivers = pip_drivers()
    if not drivers or os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OCL_ICD_FILENAMES"):
        return
    if _is_khronos_loader(loader):
        os.environ["OCL_ICD_FILENAMES"] = ":".join(drivers)
    else:
        os.environ["OCL_ICD_VENDORS"] = str(_vendor_folder(drivers))


def _vendor_folder(drivers: list[str]) -> Path:
    """A folder of .icd files: the system's as links, and one per driver of this environment. Same content, same
    folder."""
    entries = {}
    if SYSTEM_VENDORS.is_dir():
        entries = {file.name: str(file) for file in sorted(SYSTEM_VENDORS.glob("*.icd"))}
    digest = hashlib.sha256(repr((sorted(entries.items()), drivers)).encode()).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_ocl" / "vendors"
    for parent in (base, Path(tempfile.gettempdir()) / f"torch_ocl-vendors-{os.getuid()}"):
        try:
            return _write_vendor_folder(parent / digest, entries, drivers)
        except OSError:
            continue
    raise OSError("no folder could be written for the list of OpenCL drivers")


def _write_vendor_folder(folder: Path, entries: dict[str, str], drivers: list[str]) -> Path:
    if folder.is_dir() and folder.stat().st_uid == os.getuid():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.parent.stat().st_uid != os.getuid():
        raise OSError(f"{folder.parent} belongs to somebody else")
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, target in entries.items():
        (scratch / name).symlink_to(target)
    for index, driver in enumerate(drivers):
        (scratch / f"torch_ocl_{index}.icd").write_text(driver + "\n")
    try:
        scratch.rename(folder)  # all or nothing: several processes may start together
    except OSError:
        if not folder.is_dir():
            raise
    return folder


def count_devices(loader: ctypes.CDLL) -> int:
    """Number of OpenCL devices of all platforms. Opens the drivers: afterwards a forked child cannot use them."""
    count = ctypes.c_uint32(0)
    if loader.clGetPlatformIDs(0, None, ctypes.byref(count)) != 0 or count.value == 0:
        return 0
    platforms = (ctypes.c_void_p * count.value)()
    loader.clGetPlatformIDs(count, platforms, None)
    total, all_types = 0, ctypes.c_uint64(0xFFFFFFFF)
    for platform in platforms:
        devices = ctypes.c_uint32(0)
        if loader.clGetDeviceIDs(ctypes.c_void_p(platform), all_types, 0, None, ctypes.byref(devices)) == 0:
            total += devices.value
    return total


@functools.cache
def probe() -> int:
    """Number of OpenCL devices, asked by another process, so that this one can still fork.

    -1 when it cannot be found out.
    """
    if not sys.executable:
        return -1
    try:
        answer = subprocess.run(
            [sys.executable, "-I", "-S", __file__, sys.prefix], capture_output=True, text=True, timeout=60, check=True
        )
        return int(answer.stdout.split()[-1])
    except subprocess.CalledProcessError:
        return 0  # a driver that crashes is no device
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return -1


if __name__ == "__main__":
    sys.prefix = sys.exec_prefix = sys.argv[1]
    opened = library()
    print(count_devices(opened) if opened is not None else 0)
