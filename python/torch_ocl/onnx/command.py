"""`python -m torch_ocl onnx MODEL`: what is in a model, whether it runs, how fast, and whether ONNX Runtime agrees.

python -m torch_ocl onnx MODEL [--device ocl] [--input FILE.npz] [--size NAME=N ...] [--optimize] [--benchmark]
python -m torch_ocl onnx --operators      the table of supported operators (docs/generated/onnx.md)
"""

import argparse
import importlib
import sys
import time
from typing import Any

import numpy
import onnx

from . import table, types
from .backend import Representation, device_of, load
from .errors import ModelError


def main(arguments: list[str]) -> int:
    """Runs the command; 0 when the model runs and ONNX Runtime, where installed, gives the same."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_ocl onnx", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", help="path of an .onnx file")
    parser.add_argument("--device", default="ocl", help="a device of PyTorch (default: ocl)")
    parser.add_argument("--input", help="an .npz file with an array for each input, by its name")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="size of a dynamic axis (default 1)"
    )
    parser.add_argument("--optimize", action="store_true", help="rewrite by torch_ocl.optimize first")
    parser.add_argument("--benchmark", action="store_true", help="time it, and ONNX Runtime's CPU provider beside it")
    parser.add_argument("--operators", action="store_true", help="print the table of supported operators")
    options = parser.parse_args(arguments)
    if options.operators:
        print(table.markdown())
        return 0
    if options.model is None:
        parser.error("which model?")
    try:
        return _show(options)
    except (ModelError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _show(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    place = device_of(options.device)
    module = load(options.model, place)
    described = module.meta["onnx"]
    print(f"{options.model}: loaded on {place} in {time.perf_counter() - begin:.2f} s")
    print(
        "opsets:    ", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in described["opsets"].items())
    )
    counts = sorted(described["operators"].items(), key=lambda item: (-item[1], item[0]))
    print("operators: ", ", ".join(f"{name} {count}" for name, count in counts))
    print(f"parameters: {sum(parameter.numel() for parameter in module.parameters()):,}")
    print(f"waits for the device in a call: {described['waits']}")
    sizes = dict(part.split("=", 1) for part in options.size)
    feeds = _read(options.input) if options.input else _made_up(described, {key: int(n) for key, n in sizes.items()})
    for name, value in feeds.items():
        print(f"input {name}: {getattr(value, 'dtype', type(value).__name__)} {list(getattr(value, 'shape', []))}")
    if options.optimize:
        module = _optimized(module)
    representation = Representation(module, place, described)
    outputs = representation.run(feeds)
    for (name, _), value in zip(described["outputs"], outputs):
        print(f"output {name}: {getattr(value, 'dtype', type(value).__name__)} {list(getattr(value, 'shape', []))}")
    agrees = _compare(options, feeds, outputs, representation)
    return 0 if agrees else 1


def _optimized(module: Any) -> Any:
    from ..optimization import optimize

    return optimize(module)


def _read(path: str) -> dict[str, Any]:
    with numpy.load(path, allow_pickle=False) as file:
        return dict(file)


def _made_up(described: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Random numbers for the declared inputs; integers are 0 or 1, so that they serve as indices and masks."""
    generator, feeds = numpy.random.default_rng(0), {}
    for name, element in described["inputs"]:
        kind = onnx.TypeProto()
        kind.ParseFromString(described["types"][name])
        if not kind.HasField("tensor_type") or element == types.STRING:
            raise ValueError(f"input '{name}' is no tensor of numbers: give it by --input")
        shape = [_size(dim, sizes) for dim in kind.tensor_type.shape.dim]
        dtype = types.numpy_type(element)
        floats = types.dtype_of(element).is_floating_point
        feeds[name] = (generator.standard_normal(shape) if floats else generator.integers(0, 2, shape)).astype(dtype)
    return feeds


def _size(dim: Any, sizes: dict[str, int]) -> int:
    return int(dim.dim_value) if dim.HasField("dim_value") else sizes.get(dim.dim_param, 1)


def _time(function: Any, least: float = 1.0) -> float:
    """Median milliseconds of a call."""
    function()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < least:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(numpy.median(times)) * 1e3


def _compare(options: argparse.Namespace, feeds: dict[str, Any], outputs: Any, representation: Representation) -> bool:
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        print("onnxruntime is not installed: nothing to compare with")
        session = None
    else:
        session = runtime.InferenceSession(options.model, providers=["CPUExecutionProvider"])
    agrees = True
    if session is not None:
        for (name, _), ours, theirs in zip(representation.described["outputs"], outputs, session.run(None, feeds)):
            agrees &= _same(name, ours, theirs)
    if options.benchmark:
        ours = _time(lambda: _call(representation, feeds))
        print(f"latency: {ours:.2f} ms on {options.device}, with the copies of inputs and outputs")
        if session is not None:
            theirs = _time(lambda: session.run(None, feeds))
            print(f"latency: {theirs:.2f} ms in ONNX Runtime's CPU provider ({theirs / ours:.2f} times ours)")
    return agrees


def _call(representation: Representation, feeds: dict[str, Any]) -> None:
    representation.run(feeds)


def _same(name: str, ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, numpy.ndarray) or ours.dtype == object:
        return True
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        print(f"output {name}: ONNX Runtime gives {theirs.dtype} {list(theirs.shape)}: DIFFERENT")
        return False
    a, b = ours.astype(numpy.float64), theirs.astype(numpy.float64)
    difference = float(numpy.abs(a - b).max(initial=0.0))
    same = bool(numpy.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True))
    print(f"output {name}: largest difference to ONNX Runtime {difference:.1e}: {'same' if same else 'DIFFERENT'}")
    return same
