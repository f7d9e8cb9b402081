"""OpenCL devices for ONNX Runtime: where the plug-in execution provider lies, and the devices that it offers."""

import importlib.util
from pathlib import Path
from typing import Any

__all__ = ["devices", "get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path() -> str:
    """The path for `onnxruntime.register_execution_provider_library`. Errors: FileNotFoundError."""
    path = Path(__file__).resolve().parent / "libonnxruntime_ep_ocl.so"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the package was not built completely")
    return str(path)


def get_ep_name() -> str:
    """The name of the provider, as `OrtEpDevice.ep_name` has it."""
    return "OclExecutionProvider"


def get_ep_names() -> list[str]:
    """The names of all providers of the library."""
    return [get_ep_name()]


def devices() -> list[Any]:
    """The OpenCL devices as ONNX Runtime's `OrtEpDevice`s, GPUs first; registers the library when that was not done.

    Errors: ImportError where the package onnxruntime (1.23 or later) is missing.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise ImportError('the package onnxruntime is missing: pip install "onnxruntime>=1.23"')
    import onnxruntime

    def offered() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]

    if not offered():
        onnxruntime.register_execution_provider_library("ocl", get_library_path())
    return offered()
