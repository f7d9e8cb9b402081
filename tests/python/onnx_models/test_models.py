"""Models of many kinds: torch_ocl.onnx and the execution provider give what ONNX Runtime's CPU provider gives."""

import json
from pathlib import Path

import numpy
import onnx
import onnx.inliner
import pytest
import torch

import torch_ocl.onnx

from .models import MODELS, Model, make

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")
SLOW = {"vit_dynamo"}  # importing that exporter takes seconds
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


def session(model: Model, options: onnxruntime.SessionOptions, **how) -> onnxruntime.InferenceSession:
    """Without ONNX Runtime's own optimisations: it would compute quantised models in another way."""
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model.proto) if isinstance(model.proto, Path) else model.proto.SerializeToString()
    return onnxruntime.InferenceSession(source, options, **how)


def expected(model: Model) -> list[numpy.ndarray]:
    return session(model, onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]).run(None, model.inputs)


def check(model: Model, got: list[numpy.ndarray]) -> None:
    """Within 1e-4 of the values' range. Quantised values that lie between two codes may become either: one in a
    hundred, and by two steps at most where several of them meet."""
    for actual, want in zip(got, expected(model), strict=True):
        assert actual.shape == want.shape
        assert actual.dtype == want.dtype
        assert want.size
        off = numpy.abs(actual.astype(numpy.float64) - want) / max(1, numpy.abs(want).max())
        assert off.max() <= max(1e-4, 2 * model.step), off.max()
        assert (off > 1e-4).mean() <= (0.01 if model.step else 0)


@pytest.mark.parametrize("name", NAMES)
def test_importer(name, folder, device, no_fallback):
    model = make(name, folder)
    module = torch_ocl.onnx.load(model.proto, device)
    with torch.no_grad():
        results = module(*(torch.from_numpy(value).to(device) for value in model.inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    assert all(value.device.type == device for value in results)
    check(model, [value.cpu().numpy() for value in results])


def count_nodes(graph: onnx.GraphProto) -> int:
    """Of a graph and those inside; constants are none once ONNX Runtime has read them."""
    inner = sum(count_nodes(a.g) for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
    return inner + sum(node.op_type != "Constant" for node in graph.node)


def share_claimed(model: Model, profile: str) -> float:
    """Of all nodes, by the names of those that the CPU provider ran."""
    with open(profile) as file:
        events = [event["args"] | {"name": event["name"]} for event in json.load(file) if event.get("cat") == "Node"]
    left = {event["name"] for event in events
            if event.get("provider") == "CPUExecutionProvider" and "Memcpy" not in event["op_name"]}  # fmt: skip
    proto = onnx.load(model.proto, load_external_data=False) if isinstance(model.proto, Path) else model.proto
    return 1 - len(left) / count_nodes(onnx.inliner.inline_local_functions(proto).graph)


@pytest.mark.parametrize("name", NAMES)
def test_provider(name, folder, tmp_path):
    from tests.python.onnx_provider.sessions import devices, library

    if library() is None or not devices():
        pytest.skip("the execution provider was not built, or finds no device")
    model = make(name, folder)
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    options.add_provider_for_devices(devices()[:1], {})
    ours = session(model, options)
    check(model, ours.run(None, model.inputs))
    assert share_claimed(model, ours.end_profiling()) >= model.claimed
