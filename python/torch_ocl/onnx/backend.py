"""load(), and the backend interface of the onnx package."""

from collections.abc import Sequence
from typing import Any

import onnx
import torch
from onnx import NodeProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from .. import ocl
from . import importer, types
from .errors import ModelError, UnsupportedError
from .module import OnnxModule

Source = Any  # a path, the bytes of a file or an onnx.ModelProto


def load(model: Source, device: torch.device | str | None = None) -> OnnxModule:
    """The model as a module in evaluation mode.

    `model` is a path, the bytes of a file or an onnx.ModelProto. Models with external data need a path. The module
    takes the graph's inputs in their order or by name (characters that Python's names lack become `_`) and returns its
    outputs, several as a tuple. Tensors of strings are numpy arrays of objects, sequences are lists, an empty optional
    is None. Floating-point weights are parameters under the model's names.

    Raises ModelError for a model that is broken, UnsupportedError for one that uses an operator without a row.
    """
    module = importer.build(model).eval()
    if device is not None:
        module = module.to(device)
    return module


class Representation(BackendRep):
    """A model that is ready to run with numpy arrays: `run(inputs)`. `module` is the nn.Module behind it."""

    def __init__(self, module: Any, device: torch.device, described: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.module, self.device = module, device
        self.described = module.meta["onnx"] if described is None else described

    def run(self, inputs: Any, **options: Any) -> Any:
        """The outputs as arrays in a named tuple. `inputs` are arrays in the graph's order, a dict by name, or one."""
        named = isinstance(inputs, dict)
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        known = [(*pair, key) for pair, key in zip(self.described["inputs"], self.described["arguments"])]
        if len(inputs) > len(known):
            raise ModelError(f"{len(inputs)} inputs are given, the graph has {len(known)}")
        chosen = [entry for entry in known if not named or entry[0] in inputs]
        values = [inputs[name] for name, _, _ in chosen] if named else list(inputs)
        arguments = {key: self._placed(name, value, element) for (name, element, key), value in zip(chosen, values)}
        with torch.no_grad():
            results = self.module(**arguments)
        outputs = self.described["outputs"]
        results = (results,) if len(outputs) == 1 else results
        arrays = [types.to_numpy(value, element) for value, (_, element) in zip(results, outputs)]
        return namedtupledict("Outputs", [name for name, _ in outputs])(*arrays)

    def _placed(self, name: str, value: Any, element: int) -> Any:
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            return [self._placed(name, part, element) for part in value]
        if isinstance(value, torch.Tensor):
            return value.to(self.device)
        try:
            tensor = types.from_numpy(value, element)
        except TypeError as error:
            raise ModelError(f"input '{name}': {error}") from error
        return tensor.to(self.device) if isinstance(tensor, torch.Tensor) else tensor


class OclBackend(Backend):
    """ONNX's backend interface. Devices are PyTorch's ("ocl", "ocl:1", "cpu") or ONNX's "CPU" and "CUDA"."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "ocl", **options: Any) -> bool:
        """Whether the model can be imported."""
        try:
            importer.build(model)
        except UnsupportedError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Source, device: str = "ocl", **options: Any) -> Representation:
        """The model on the device, ready to run."""
        place = device_of(device)
        return Representation(load(model, place), place)

    @classmethod
    def run_model(cls, model: Source, inputs: Any, device: str = "ocl", **options: Any) -> Any:
        """prepare() and run() once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "ocl",
        outputs_info: Sequence[Any] | None = None,
        **options: Any,
    ) -> Any:
        """One node with the inputs that it names. `opset_version` is the newest by default."""
        names = [name for name in node.input if name]
        values = [inputs[name] for name in names] if isinstance(inputs, dict) else list(inputs)
        formal = [_described(name, value) for name, value in zip(names, values)]
        graph = helper.make_graph(
            [node], "node", formal, [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        )
        version = options.get("opset_version", onnx.defs.onnx_opset_version())
        imports = [helper.make_opsetid(node.domain, version)]
        if node.domain:
            imports.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        return cls.prepare(helper.make_model(graph, opset_imports=imports), device).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether PyTorch has the device here."""
        try:
            place = device_of(device)
        except (RuntimeError, ValueError):
            return False
        return place.type == "cpu" or (place.type == "ocl" and (place.index or 0) < ocl.device_count())


def _described(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, (list, tuple)):
        inner = _described("", value[0]).type if value else onnx.TypeProto()
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    tensor = types.from_numpy(value)
    element = types.element_of(tensor.dtype) if isinstance(tensor, torch.Tensor) else types.STRING
    return helper.make_tensor_value_info(name, element, list(tensor.shape))


def device_of(name: str) -> torch.device:
    """PyTorch's device of a name of PyTorch or of ONNX. ValueError for others."""
    kind, _, index = name.partition(":")
    kind = {"CPU": "cpu", "CUDA": "ocl", "OCL": "ocl"}.get(kind, kind)
    place = torch.device(f"{kind}:{index}" if index else kind)
    if place.type not in ("cpu", "ocl"):
        raise ValueError(f"device '{name}' is neither of `ocl` nor of the CPU")
    return place


is_compatible = OclBackend.is_compatible
prepare = OclBackend.prepare
run_model = OclBackend.run_model
run_node = OclBackend.run_node
supports_device = OclBackend.supports_device
