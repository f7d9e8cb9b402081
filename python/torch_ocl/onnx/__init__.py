"""ONNX models as PyTorch modules, on any device.

    import torch_ocl.onnx
    net = torch_ocl.onnx.load("model.onnx", device="ocl")
    y = net(x)

`load` gives an nn.Module: it moves with `.to`, its weights are in `state_dict()`, it trains, and torch.export and
torch.compile take it with dynamic sizes. `prepare`, `run_model` and `run_node` are ONNX's backend interface.

Needs the package `onnx`: pip install "torch-ocl[onnx]".
"""

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError(
        'torch_ocl.onnx needs the package onnx, which is not installed: pip install onnx (or "torch-ocl[onnx]")'
    ) from error

from . import operators as _operators
from .backend import OclBackend, is_compatible, load, prepare, run_model, run_node, supports_device
from .errors import ModelError, UnsupportedError
from .module import OnnxModule

__all__ = [
    "ModelError",
    "OclBackend",
    "OnnxModule",
    "UnsupportedError",
    "is_compatible",
    "load",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

del _onnx, _operators
