"""ONNX's own backend tests, run on one device.

    python -m tests.python.onnx_import.backend_suite --device ocl
    python -m tests.python.onnx_import.backend_suite --device cpu --kinds node --only attention

Kinds: node (1,884 single operators and function bodies), simple, converted and operator (networks that PyTorch
exported), light (nine image classifiers). Every case that fails must stand in failures.txt with its reason, and every
case there must fail: otherwise the exit status is 1. On `ocl` a case fails as well when a device operator of it ran on
the CPU.
"""

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy
import onnx
import torch
from onnx.backend.test.runner import Runner

import torch_ocl.onnx

KINDS = {
    "node": "OnnxBackendNodeModelTest",
    "simple": "OnnxBackendSimpleModelTest",
    "converted": "OnnxBackendPyTorchConvertedModelTest",
    "operator": "OnnxBackendPyTorchOperatorModelTest",
    "light": "OnnxBackendRealModelTest",
}
# Their results are numbers of numpy's generator: only shape and type can agree.
RANDOM = re.compile(r"test_(bernoulli|training_dropout)")
FAILURES = Path(__file__).with_name("failures.txt")


class Suite(Runner):
    """ONNX's runner; random cases are compared by shape and type."""

    random_case = False

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        if not Suite.random_case:
            return super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, model_dir)
        for expected, actual in zip(ref_outputs, outputs, strict=True):
            assert (expected.shape, expected.dtype) == (actual.shape, actual.dtype)
        return None


def cases(device: str, kinds: list[str]) -> list[tuple[str, str, object]]:
    """(kind, name, function) of all cases, the name without the device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, where onnx computes what it expects
        classes = Suite(torch_ocl.onnx.OclBackend).test_cases
    end = "_cuda" if device.startswith("ocl") else "_cpu"  # ONNX asks for "CPU" and "CUDA": the latter means ocl
    found = []
    for kind in kinds:
        suite = classes[KINDS[kind]]
        names = sorted(name for name in dir(suite) if name.startswith("test_") and name.endswith(end))
        found += [(kind, name.removesuffix(end), getattr(suite(name), name)) for name in names]
    return found


def known_failures(device: str) -> dict[str, str]:
    """Names and reasons of failures.txt: lines `devices | name | reason`."""
    rows = [line.split("|", 2) for line in FAILURES.read_text().splitlines() if line and not line.startswith("#")]
    kind = device.partition(":")[0]
    return {name.strip(): reason.strip() for devices, name, reason in rows if kind in devices.split()}


def run_case(name: str, function, device: str) -> str | None:
    """None where the case passes, else why not."""
    Suite.random_case = RANDOM.match(name) is not None
    on_device = device.startswith("ocl")
    if on_device:
        torch.ocl.reset_fallbacks()
    try:
        quiet = io.StringIO()
        with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    fallbacks = torch.ocl.fallbacks() if on_device else {}
    return f"on the CPU: {', '.join(sorted(map(str, fallbacks)))}" if fallbacks else None


def main(arguments: list[str]) -> int:
    """Runs the cases; 0 when exactly those of failures.txt fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--only", default="", help="regular expression of names")
    options = parser.parse_args(arguments)
    known, unexpected, begin = known_failures(options.device), [], time.monotonic()
    counts = {kind: [0, 0] for kind in options.kinds}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_HOME"] = folder  # where ONNX's runner writes what it expects of the light nets
        for kind, name, function in cases(options.device, options.kinds):
            if not re.search(options.only, name):
                continue
            problem = run_case(name, function, options.device)
            counts[kind][0] += problem is None
            counts[kind][1] += 1
            if problem is not None:
                print(f"{'known' if name in known else 'FAILED'} {name}: {problem}", flush=True)
            if (problem is not None) != (name in known):
                unexpected.append(name if problem is not None else f"{name} (listed in {FAILURES.name}, but it passes)")
    for kind, (good, total) in counts.items():
        print(f"{kind}: {good} of {total}")
    print(f"{time.monotonic() - begin:.0f} s, onnx {onnx.__version__}, numpy {numpy.__version__}")
    for name in unexpected:
        print(f"unexpected: {name}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
