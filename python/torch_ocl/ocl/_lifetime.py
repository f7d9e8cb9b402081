"""Lazy initialisation, fork safety, and a clean end of the process."""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable

from _torch_ocl_boot import loader

from .. import _core
from .._interface import Core

_lock = threading.RLock()
_initialized = False
_touched = False  # devices were opened in this process: a forked child inherits drivers without their threads
_in_bad_fork = False
_waiting: list[Callable[[], object]] = []
_start = time.monotonic()

BAD_FORK = (
    "Cannot re-initialize ocl in forked subprocess. "
    "To use ocl with multiprocessing, you must use the 'spawn' start method"
)


def _tell_package(initialized: bool) -> None:
    """torch.utils.checkpoint reads `torch.ocl._initialized`."""
    setattr(sys.modules[__package__], "_initialized", initialized)  # noqa: B010  the type of modules has no attribute


def _after_fork_in_child() -> None:
    global _in_bad_fork, _initialized
    if _touched:
        _in_bad_fork = True
        _initialized = False
        _tell_package(False)


os.register_at_fork(after_in_child=_after_fork_in_child)


def opened() -> Core:
    """The core module, noting that devices are about to be opened in this process."""
    global _touched
    core = _core.core()
    _touched = True
    return core


def _is_in_bad_fork() -> bool:
    return _in_bad_fork


def is_initialized() -> bool:
    """Whether a device has been opened and can be used in this process."""
    return _initialized and not _in_bad_fork


def init() -> None:
    """Initialises the backend. Usually not needed: the first use of the device does it."""
    _lazy_init()


def _lazy_init() -> None:
    """Opens the devices once.

    PyTorch calls it before the first tensor on the device. Raises RuntimeError that says what to do.
    """
    global _initialized
    if is_initialized():
        return
    with _lock:
        if is_initialized():
            return
        if _in_bad_fork:
            raise RuntimeError(BAD_FORK)
        core = opened()
        core.register_fork_handler()
        if core.device_count() == 0:
            problems = "".join(f"\n  {line}" for line in core.device_problems())
            raise RuntimeError(f"No OpenCL device was found: {loader.HOW_TO_INSTALL}.{problems}")
        _initialized = True
        _tell_package(True)
        atexit.register(_finish, os.getpid())
        waiting, _waiting[:] = list(_waiting), []
    for call in waiting:
        call()


def _lazy_call(call: Callable[[], object]) -> None:
    """Runs `call` now, or when the backend is first used."""
    with _lock:
        if not is_initialized():
            _waiting.append(call)
            return
    call()


def _finish(process: int) -> None:
    """Lets the device finish, the autograd thread drop its last Python objects and the disk cache take the programs
    that wait (for a twentieth of the time that the process took), while the interpreter and the driver's compiler still
    live."""
    if os.getpid() != process or _in_bad_fork:
        return
    try:
        core = _core.core()
        for index in range(core.device_count()):
            core.synchronize(index)
        core.write_postponed_programs(min(10, 0.05 * (time.monotonic() - _start)))
    except Exception:  # nobody can act on it now
        pass
    time.sleep(0.02)
