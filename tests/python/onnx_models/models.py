"""About twenty ONNX models: exported from networks.py, quantised from those, or written node by node."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from tests.python.onnx_import.test_models import Decoder

from . import networks


@dataclass
class Model:
    """What make() of a name gives. `claimed`: the share of nodes that the provider must claim at least."""

    proto: onnx.ModelProto | Path
    inputs: dict[str, numpy.ndarray]
    claimed: float = 0.9
    step: float = 0  # of a quantised result, in parts of the largest value


def array(*sizes: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=sizes).astype(numpy.float32)


def whole(limit: int, *sizes: int) -> numpy.ndarray:
    return numpy.random.default_rng(0).integers(0, limit, sizes)


def export(network: nn.Module, inputs: dict, axes: dict | None = None, opset: int = 17) -> onnx.ModelProto:
    """`axes`: dynamic axes by input. Batch norms get statistics of their own."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            for tensor in (part.weight, part.bias, part.running_mean, part.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5)
    file = io.BytesIO()
    names = {name: {axis: f"{name}_{axis}" for axis in places} for name, places in (axes or {}).items()}
    tensors = tuple(torch.from_numpy(value) for value in inputs.values())
    torch.onnx.export(network.eval(), tensors, file, dynamo=False, input_names=list(inputs), dynamic_axes=names,
                      opset_version=opset)  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def exported(make: Callable[[], nn.Module], axes: dict | None = None, **inputs: numpy.ndarray) -> Callable[[], Model]:
    return lambda folder: Model(export(make(), inputs, axes), inputs)


def detector(folder: Path) -> Model:
    """The head's boxes and scores, a suppression, and the boxes that it keeps."""
    inputs = {"x": array(1, 3, 64, 64)}
    model = export(networks.Yolo(), inputs)
    boxes, scores = (info.name for info in model.graph.output)
    constants = {"most": numpy.array(5), "overlap": numpy.float32(0.4), "least": numpy.float32(0.3)}
    for name, value in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(numpy.asarray(value), name))
    model.graph.initializer.append(numpy_helper.from_array(numpy.array([0, 2]), "columns"))
    model.graph.node.extend(
        [
            helper.make_node("NonMaxSuppression", [boxes, scores, *constants], ["kept"], name="suppress"),
            helper.make_node("Gather", ["kept", "columns"], ["places"], name="places", axis=1),
            helper.make_node("GatherND", [boxes, "places"], ["found"], name="found"),
        ]
    )
    model.graph.output.extend([helper.make_tensor_value_info("kept", TensorProto.INT64, None),
                               helper.make_tensor_value_info("found", TensorProto.FLOAT, None)])  # fmt: skip
    return Model(model, inputs)


class Samples:
    """Calibration data: one batch."""

    def __init__(self, inputs: dict):
        self.left = [inputs]

    def get_next(self) -> dict | None:
        return self.left.pop() if self.left else None


def quantized(folder: Path) -> Model:
    """MobileNet in integers: QuantizeLinear and DequantizeLinear around each operator, scales for each channel."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    inputs = {"x": array(2, 3, 64, 64)}
    source, target = folder / "float.onnx", folder / "qdq.onnx"
    onnx.save(export(networks.mobilenet_v2(), inputs), source)
    quantization.quantize_static(source, target, Samples(inputs), per_channel=True,
                                 weight_type=quantization.QuantType.QInt8)  # fmt: skip
    return Model(onnx.load(target), inputs, step=0.02)


def dynamically_quantized(folder: Path) -> Model:
    """DynamicQuantizeLinear and MatMulInteger."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    inputs = {"x": array(2, 3, 32, 32)}
    source, target = folder / "float.onnx", folder / "dynamic.onnx"
    onnx.save(export(networks.Vit(), inputs), source)
    quantization.quantize_dynamic(source, target, op_types_to_quantize=["MatMul"])
    return Model(onnx.load(target), inputs, step=0.05)


def graph(nodes: list, inputs: dict, outputs: list[str], weights: dict, **settings) -> onnx.ModelProto:
    """A model of nodes; sizes of inputs and outputs are left open."""
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    made = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info(name, types[name], [None] * inputs[name].ndim) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(numpy.asarray(value), name) for name, value in weights.items()],
    )  # fmt: skip
    settings.setdefault("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(made, ir_version=8, **settings)


def integer_convolutions(folder: Path) -> Model:
    """QLinearConv twice and QLinearMatMul, as ONNX Runtime's other format of quantised models has them."""
    random = numpy.random.default_rng(0)
    codes = {f"w{i}": random.integers(-100, 100, sizes).astype(numpy.int8)
             for i, sizes in enumerate([(8, 3, 3, 3), (8, 8, 3, 3), (8, 4)])}  # fmt: skip
    zero = {"z": numpy.uint8(120), "zw": numpy.int8(0), "b": numpy.arange(8, dtype=numpy.int32) * 100}
    scale = {f"s{i}": numpy.float32(value) for i, value in enumerate((0.0213, 0.0107, 0.0531, 0.0417, 0.0119, 0.0971))}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s0", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s0", "z", "w0", "s1", "zw", "s2", "z", "b"], ["a"], pads=[1] * 4),
        helper.make_node("QLinearConv", ["a", "s2", "z", "w1", "s1", "zw", "s3", "z"], ["c"], strides=[2, 2]),
        helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("QLinearMatMul", ["t", "s3", "z", "w2", "s4", "zw", "s5", "z"], ["m"]),
        helper.make_node("DequantizeLinear", ["m", "s5", "z"], ["y"]),
    ]
    inputs = {"x": array(2, 3, 12, 12)}
    return Model(graph(nodes, inputs, ["y"], codes | zero | scale), inputs, step=0.1)


def control(folder: Path) -> Model:
    """A Loop whose body reads from outside of it, and an If: what is inside of them runs on the device as well."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["next"]),
         helper.make_node("Identity", ["going"], ["goes"]), helper.make_node("Identity", ["next"], ["seen"])],
        "body", [info("i", TensorProto.INT64, []), info("going", TensorProto.BOOL, []),
                 info("state", TensorProto.FLOAT, None)],
        [info("goes", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, None),
         info("seen", TensorProto.FLOAT, None)],
    )  # fmt: skip
    branches = {name: helper.make_graph([helper.make_node(op, ["last"], [name])], name, [],
                                        [info(name, TensorProto.FLOAT, None)])
                for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))}  # fmt: skip
    nodes = [
        helper.make_node("Loop", ["times", "", "x"], ["last", "all"], body=body),
        helper.make_node("ReduceSum", ["last"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "bound"], ["high"]),
        helper.make_node("If", ["high"], ["chosen"], **branches),
        helper.make_node("Add", ["chosen", "last"], ["y"]),
    ]
    inputs = {"x": array(3, 4)}
    weights = {"times": numpy.array(5), "w": array(4, 4, seed=1), "bound": numpy.float32(0)}
    return Model(graph(nodes, inputs, ["y", "all"], weights), inputs, claimed=0)


def functions(folder: Path) -> Model:
    """Functions of the model, one inside of the other, with an attribute that the caller gives."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    leaky = helper.make_node("LeakyRelu", ["x"], ["y"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
    inner = helper.make_function("own", "Bent", ["x"], ["y"], [leaky], opset[:1], attributes=["slope"])
    step = [helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Bent", ["p"], ["b"], domain="own", slope=0.25),
            helper.make_node("Add", ["b", "x"], ["y"])]  # fmt: skip
    outer = helper.make_function("own", "Step", ["x", "w"], ["y"], step, opset)
    nodes = [helper.make_node("Step", [x, "w"], [y], domain="own") for x, y in (("x", "h"), ("h", "y"))]
    inputs = {"x": array(3, 4)}
    made = graph(nodes, inputs, ["y"], {"w": array(4, 4, seed=1)}, opset_imports=opset, functions=[inner, outer])
    return Model(made, inputs)


def external(folder: Path) -> Model:
    """Weights beyond the second gigabyte of a file of their own, which is mostly a hole."""
    weights = {"w": array(4, 8, seed=1), "b": array(8, seed=2)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    inputs = {"x": array(3, 4)}
    model = graph(nodes, inputs, ["y"], weights)
    offset = (2 << 30) + 4096
    with open(folder / "weights.bin", "wb") as file:
        for tensor in model.graph.initializer:
            content = tensor.raw_data
            file.seek(offset)
            file.write(content)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in {"location": "weights.bin", "offset": offset, "length": len(content)}.items():
                tensor.external_data.add(key=key, value=str(value))
            offset += 1 << 20
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return Model(path, inputs)


def dynamo(folder: Path) -> Model:
    """By PyTorch's newer exporter."""
    pytest.importorskip("onnxscript")
    inputs = {"x": array(2, 3, 32, 32)}
    program = torch.onnx.export(networks.Vit().eval(), (torch.from_numpy(inputs["x"]),), dynamo=True,
                                input_names=["x"], verbose=False)  # fmt: skip
    return Model(program.model_proto, inputs)


MODELS: dict[str, Callable[[Path], Model]] = {
    "resnet18": exported(networks.resnet18, {"x": [0, 2, 3]}, x=array(2, 3, 64, 64)),
    "mobilenet_v2": exported(networks.mobilenet_v2, {"x": [0]}, x=array(2, 3, 64, 64)),
    "efficientnet": exported(networks.efficientnet, {"x": [0]}, x=array(2, 3, 64, 64)),
    "convnext": exported(networks.ConvNext, x=array(2, 3, 32, 32)),
    "detector": detector,
    "unet": exported(networks.UNet, {"x": [0, 2, 3]}, x=array(2, 3, 32, 32)),
    "bert": exported(
        networks.Bert, {"ids": [0, 1], "mask": [0, 1]},
        ids=whole(50, 2, 9), mask=numpy.repeat([[1] * 7 + [0] * 2], 2, 0),
    ),
    "vit": exported(networks.Vit, x=array(2, 3, 32, 32)),
    "vit_dynamo": dynamo,
    "whisper_encoder": exported(networks.WhisperEncoder, {"x": [0, 2]}, x=array(2, 8, 30)),
    "decoder": exported(
        Decoder, {"ids": [0, 1], "keys": [0, 2], "values": [0, 2]},
        ids=whole(30, 2, 3), keys=array(2, 2, 4, 4), values=array(2, 2, 4, 4, seed=1),
    ),
    "lstm": exported(lambda: networks.Recurrent(nn.LSTM), {"x": [0, 1]}, x=array(2, 5, 6)),
    "gru": exported(lambda: networks.Recurrent(nn.GRU), {"x": [0, 1]}, x=array(2, 5, 6)),
    "rnn": exported(lambda: networks.Recurrent(nn.RNN, nonlinearity="relu"), {"x": [0, 1]}, x=array(2, 5, 6)),
    "upscaler": exported(networks.Upscaler, {"x": [0, 2, 3]}, x=array(2, 1, 16, 16)),
    "qdq_mobilenet": quantized,
    "dynamic_quantization": dynamically_quantized,
    "integer_convolutions": integer_convolutions,
    "if_and_loop": control,
    "local_functions": functions,
    "external_data": external,
}  # fmt: skip


@cache
def folder_of(name: str, base: Path) -> Path:
    path = base / name
    path.mkdir(parents=True)
    return path


@cache
def make(name: str, base: Path) -> Model:
    """The model, made once for a process; files go into a folder of `base`."""
    torch.manual_seed(0)
    return MODELS[name](folder_of(name, base))
