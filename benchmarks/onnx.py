"""Latency of ONNX models beside ONNX Runtime's CPU provider: `python -m benchmarks.onnx [NAMES] [--batches 1,8]`.

Two ways to run them take turns with it: `torch_ocl.onnx.load` with `torch_ocl.optimize` (importer), and the execution
provider of this project in ONNX Runtime, where it was built (provider). ONNX Runtime's own threads wait without
spinning: between its turns they would take cores from the others; that may cost it a little with small models. Inputs
and results are arrays on the host. A line for each model and batch has milliseconds, the ratio CPU provider / ours
(above 1: ours is faster) and the largest difference of results as a part of the largest value; the last lines have
geometric means of the ratios.
"""

import argparse
import io
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .timing import interleaved, keep_heap

LIBRARY = Path(__file__).resolve().parents[1] / "build" / "cmake" / "libonnxruntime_ep_ocl.so"
IMAGES, WORDS, LENGTH = ("resnet18", "resnet50", "mobilenet_v2"), 1000, 64
Results = list[numpy.ndarray]


class Layer(nn.Module):
    """A transformer layer as models write it out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.first(x + self.out(y))
        result: Tensor = self.second(x + self.down(F.gelu(self.up(x))))
        return result


class Bert(nn.Module):
    def __init__(self, width: int = 512, heads: int = 8, layers: int = 4):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(WORDS, width), nn.Embedding(128, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x: Tensor = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        hidden = (1 - mask[:, None, None].float()) * -1e4
        for layer in self.layers:
            x = layer(x, hidden)
        return x


def inputs_of(name: str, batch: int) -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(0)
    if name == "bert":
        ids = random.integers(0, WORDS, (batch, LENGTH))
        return {"ids": ids, "mask": numpy.ones_like(ids)}
    return {"x": random.normal(size=(batch, 3, 224, 224)).astype(numpy.float32)}


def export(name: str) -> bytes:
    """The model with any batch, of random weights."""
    torch.manual_seed(0)
    if name == "bert":
        network: nn.Module = Bert()
    else:
        from .models.images import import_torchvision

        network = getattr(import_torchvision().models, name)(weights=None)
    inputs, file = inputs_of(name, 2), io.BytesIO()
    target: Any = file  # the exporter's annotation knows paths only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(), tuple(torch.from_numpy(value) for value in inputs.values()), target, dynamo=False,
            input_names=list(inputs), dynamic_axes={key: {0: "n"} for key in inputs}, opset_version=17,
        )  # fmt: skip
    return file.getvalue()


def session(path: Path, provider: bool) -> Any:
    """On the CPU provider or the first OpenCL device. Its threads do not spin: they would take cores from others."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not provider:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def devices() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == "OclExecutionProvider"]

    if not devices():
        onnxruntime.register_execution_provider_library("ocl", str(LIBRARY))
    options.add_provider_for_devices(devices()[:1], {})
    return onnxruntime.InferenceSession(str(path), options)


def importer(path: Path) -> Callable[[dict[str, numpy.ndarray]], Results]:
    import torch_ocl
    import torch_ocl.onnx

    network = torch_ocl.optimize(torch_ocl.onnx.load(path, "ocl"))

    def run(inputs: dict[str, numpy.ndarray]) -> Results:
        with torch.no_grad():
            result = network(*(torch.from_numpy(value).to("ocl") for value in inputs.values()))
        return [part.cpu().numpy() for part in (result if isinstance(result, tuple) else (result,))]

    return run


def ways(path: Path) -> dict[str, Callable[[dict[str, numpy.ndarray]], Results]]:
    cpu = session(path, False)
    found = {"cpu": lambda inputs: cpu.run(None, inputs), "importer": importer(path)}
    if LIBRARY.exists():
        ours = session(path, True)
        found["provider"] = lambda inputs: ours.run(None, inputs)
    return found


def difference(actual: Results, expected: Results) -> float:
    """The largest, as a part of the largest value; NaN where a result has one."""
    parts = [numpy.abs(a - b).max() / numpy.abs(b).max() for a, b in zip(actual, expected, strict=True)]
    return float(numpy.max(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*IMAGES, "bert"], help=", ".join([*IMAGES, "bert"]))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    keep_heap()
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names:
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(export(name))
            runs = ways(path)
            for batch in map(int, arguments.batches.split(",")):
                inputs = inputs_of(name, batch)
                results = {way: run(inputs) for way, run in runs.items()}
                times = interleaved({way: lambda run=run: run(inputs) for way, run in runs.items()}, arguments.rounds)
                base = times["cpu"].median
                line = f"{name} batch {batch}: CPU provider {base * 1e3:.1f} ms"
                for way in list(runs)[1:]:
                    ratios.setdefault(way, []).append(base / times[way].median)
                    line += (
                        f"; {way} {times[way].median * 1e3:.1f} ms, ratio {ratios[way][-1]:.2f}, "
                        f"off {difference(results[way], results['cpu']):.0e}"
                    )
                print(line + ("; other processes were running" if times["cpu"].contended else ""), flush=True)
    for way, values in ratios.items():
        print(f"{way}: geometric mean {math.exp(sum(map(math.log, values)) / len(values)):.3f}")


if __name__ == "__main__":
    main()
