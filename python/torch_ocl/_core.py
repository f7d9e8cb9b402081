"""The compiled core, loaded once. Where it cannot be loaded the reason is kept, and told to whoever uses the device."""

import ctypes
from pathlib import Path

import torch

from _torch_ocl_boot import loader

_core = None
_problem = None


def load():
    """Loads libtorch_ocl.so and the glue. Without an OpenCL loader nothing is loaded and nothing is raised."""
    global _core, _problem
    if _core is not None:
        return
    if loader.library() is None:
        _problem = f"There is no OpenCL loader (libOpenCL.so.1) on this machine: {loader.HOW_TO_INSTALL}."
        return
    _check_torch_version()
    try:
        ctypes.CDLL(str(Path(__file__).parent / "lib" / "libtorch_ocl.so"), mode=ctypes.RTLD_GLOBAL)
        from . import _C
    except (OSError, ImportError) as error:
        _problem = f"The core library of torch_ocl could not be loaded: {error}. Reinstall torch-ocl for torch {torch.__version__}."
        return
    _core, _problem = _C, None


def _check_torch_version():
    try:
        from ._build import TORCH
    except ImportError:
        return
    built, running = TORCH.split(".")[:2], torch.__version__.split(".")[:2]
    if built != running:
        raise ImportError(
            f"torch_ocl was built with torch {TORCH} and cannot be loaded into torch {torch.__version__}: "
            f"install torch {'.'.join(built)}.* or build torch-ocl again with the torch you have"
        )


def loaded():
    """Whether the core is in the process (devices may still be missing)."""
    return _core is not None


def problem():
    """Why the core is not loaded, or None."""
    return _problem


def core():
    """The glue module `torch_ocl._C`. Raises RuntimeError that says what to install when it is not there."""
    if _core is None:
        raise RuntimeError(_problem or "torch_ocl is not loaded")
    return _core
