"""The compiled core, loaded once. Where it cannot be loaded the reason is kept, and told to whoever uses the device."""

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import torch

from _torch_ocl_boot import loader

from ._interface import Core

_core: Core | None = None
_problem: str | None = None


def load() -> None:
    """Loads libtorch_ocl.so and the glue. Without an OpenCL loader nothing is loaded and nothing is raised.

    Raises ImportError where the package has no core for the running version of PyTorch."""
    global _core, _problem
    if _core is not None:
        return
    if loader.library() is None:
        _problem = f"There is no OpenCL loader (libOpenCL.so.1) on this machine: {loader.HOW_TO_INSTALL}."
        return
    folder = library_folder()
    try:
        ctypes.CDLL(str(folder / "libtorch_ocl.so"), mode=ctypes.RTLD_GLOBAL)
        module = _import_glue(folder / "_C.abi3.so")
    except (OSError, ImportError) as error:
        _problem = (
            f"The core library of torch_ocl could not be loaded: {error}. "
            f"Reinstall torch-ocl for torch {torch.__version__}."
        )
        return
    _core, _problem = cast(Core, module), None


def _import_glue(file: Path) -> ModuleType:
    """Imports `file` as torch_ocl._C. It lies beside the library of its version of PyTorch, where `import` does not
    look."""
    name = f"{__package__}._C"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def library_folder() -> Path:
    """Where the core for the running version of PyTorch lies: every minor version has one of its own, because PyTorch
    keeps no binary interface between them. Raises ImportError that names those that are there."""
    libraries = Path(__file__).parent / "lib"
    minor = ".".join(torch.__version__.split(".")[:2])
    folder = libraries / f"torch{minor}"
    if not folder.is_dir():
        there = sorted((f.name.removeprefix("torch") for f in libraries.glob("torch2.*")), key=lambda v: int(v[2:]))
        newest = f"pip install 'torch=={there[-1]}.*'" if there else "./run build"
        raise ImportError(
            f"This torch_ocl is for torch {', '.join(there) or 'of no version (it is not built)'}, and torch "
            f"{torch.__version__} is installed: install one of those ({newest}), a newer torch-ocl, "
            "or build it for the torch you have (pip install --no-build-isolation . in a clone of torch-ocl)"
        )
    return folder


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
