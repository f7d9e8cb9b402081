"""The compiled core, loaded once. Where it cannot be loaded the reason is kept, and told to whoever uses the device."""

import ctypes
import importlib
from pathlib import Path
from typing import cast

import torch

from _torch_ocl_boot import loader

from ._interface import Core

_core: Core | None = None
_problem: str | None = None


def load() -> None:
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
        module = importlib.import_module("._C", __package__)
    except (OSError, ImportError) as error:
        _problem = (
            f"The core library of torch_ocl could not be loaded: {error}. "
            f"Reinstall torch-ocl for torch {torch.__version__}."
        )
        return
    _core, _problem = cast(Core, module), None


def _check_torch_version() -> None:
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


def loaded() -> bool:
    """Whether the core is in the process (devices may still be missing)."""
    return _core is not None


def problem() -> str | None:
    """Why the core is not loaded, or None."""
    return _problem


def core() -> Core:
    """The glue module `torch_ocl._C`. Raises RuntimeError that says what to install when it is not there."""
    if _core is None:
        raise RuntimeError(_problem or "torch_ocl is not loaded")
    return _core
