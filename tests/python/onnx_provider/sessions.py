"""Sessions of ONNX Runtime on the devices of this project's execution provider."""

import functools
from pathlib import Path

import numpy
import onnx
import onnxruntime

NAME = "OclExecutionProvider"
BUILT = Path(__file__).resolve().parents[3] / "build" / "cmake" / "libonnxruntime_ep_ocl.so"


def library() -> Path | None:
    """The provider's library: of the build, or of the installed package; None where there is none."""
    if BUILT.exists():
        return BUILT
    try:
        import onnxruntime_ep_ocl
    except ImportError:
        return None
    return Path(onnxruntime_ep_ocl.get_library_path())


@functools.cache
def devices() -> list:
    """The OpenCL devices that ONNX Runtime lists once it has loaded the library."""

    def listed() -> list:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]

    if not listed():  # this module may have been imported under two names
        onnxruntime.register_execution_provider_library("ocl", str(library()))
    return listed()


def options(alone: bool = True, optimized: bool = False, **entries: str) -> onnxruntime.SessionOptions:
    """For the first device. `alone`: making a session fails where a node is left to ONNX Runtime's CPU provider."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 3
    made.add_provider_for_devices(devices()[:1], {})
    if alone:
        made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if not optimized:
        made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in entries.items():
        made.add_session_config_entry(key, value)
    return made


def on_device(model: onnx.ModelProto, **how) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), options(**how))


def on_cpu(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    plain = onnxruntime.SessionOptions()
    plain.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), plain, providers=["CPUExecutionProvider"])


def differences(got: list, want: list, rtol: float, atol: float) -> str | None:
    """None where all results have the types, shapes and values that are wanted; NaN equals NaN only."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i} is {a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        try:
            numpy.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        except AssertionError as error:
            return f"output {i}: {' '.join(str(error).split())[:200]}"
    return None
