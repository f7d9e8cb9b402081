"""Broken models and wrong inputs get an error in the model's terms, never a crash."""

import contextlib
import subprocess
import sys

import numpy
import pytest
import torch
from onnx import TensorProto, helper, parser

import torch_ocl.onnx
from torch_ocl.onnx import ModelError, UnsupportedError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
GOOD = HEAD + "net (float[N, 3] x) => (float[N, 2] y) { y = MatMul (x, w) }"


def model(nodes, inputs=("x",), outputs=("y",), initializers=(), opset=17, functions=()):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*inputs, *outputs)]
    graph = helper.make_graph(nodes, "net", info[: len(inputs)], info[len(inputs) :], list(initializers))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, name=f"the_{operator.lower()}", **attributes)


BROKEN = {
    "cycle": (model([node("Add", ["x", "z"], ["y"]), node("Neg", ["y"], ["z"])]), ModelError, "the_add.*'z'.*cycle"),
    "unknown operator": (model([node("Frobnicate", ["x"], ["y"])]), UnsupportedError, "the_frobnicate.*no operator"),
    "later operator": (model([node("Gelu", ["x"], ["y"])]), UnsupportedError, "no operator 'Gelu' in opset 17"),
    "unknown domain": (
        model([node("Foo", ["x"], ["y"], domain="z")]),
        ModelError,
        "imports no opset of the domain 'z'",
    ),
    "future opset": (
        model([node("Later", ["x"], ["y"])], opset=900),
        UnsupportedError,
        "newer than the installed onnx",
    ),
    "unknown attribute": (model([node("Softmax", ["x"], ["y"], axle=1)]), UnsupportedError, "attribute 'axle'"),
    "too many inputs": (model([node("Relu", ["x", "x"], ["y"])]), ModelError, "the_relu.*2 inputs.*takes 1"),
    "too many outputs": (model([node("Neg", ["x"], ["y", "z"])]), ModelError, "the_neg.*2 outputs.*takes 1"),
    "name twice": (model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])]), ModelError, "'y' exists already"),
    "absent output": (model([node("Neg", ["x"], ["z"])]), ModelError, "output 'y'.*not computed"),
    "short constant": (
        model(
            [node("Add", ["x", "w"], ["y"])],
            initializers=[TensorProto(name="w", data_type=1, dims=[9], raw_data=b"12")],
        ),
        ModelError,
        "'w'.*needs 36 bytes",
    ),
    "huge constant": (
        model(
            [node("Add", ["x", "w"], ["y"])],
            initializers=[TensorProto(name="w", data_type=1, dims=[2**40, 2**20], raw_data=b"12")],
        ),
        ModelError,
        "'w'.*bytes",
    ),
    "unknown type": (
        model(
            [node("Add", ["x", "w"], ["y"])],
            initializers=[TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1")],
        ),
        ModelError,
        "'w'",
    ),
    "function that calls itself": (
        model(
            [node("f", ["x"], ["y"], domain="own")],
            functions=[
                helper.make_function(
                    "own", "f", ["a"], ["b"], [node("f", ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)]
                )
            ],
        ),
        ModelError,
        "the_f.*levels deep",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_models(case):
    broken, error, text = BROKEN[case]
    with pytest.raises(error, match=text):
        module = torch_ocl.onnx.load(broken)
        module(torch.ones(4))  # what only a call can see


def test_truncated_files():
    good = model(
        [node("MatMul", ["x", "w"], ["y"])],
        initializers=[
            helper.make_tensor("w", TensorProto.FLOAT, [3, 2], numpy.ones(6, numpy.float32).tobytes(), raw=True)
        ],
    ).SerializeToString()
    assert torch_ocl.onnx.load(good)(torch.ones(1, 3)).tolist() == [[3, 3]]
    for length in range(0, len(good), 7):
        with pytest.raises(ModelError):
            torch_ocl.onnx.load(good[:length])
            raise ModelError("a shorter text may be a whole model")  # then it must have loaded without a crash


def test_damaged_files_never_crash():
    good = bytearray(model([node("Relu", ["x"], ["z"]), node("Neg", ["z"], ["y"])]).SerializeToString())
    generator = numpy.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(good)
        damaged[generator.integers(len(good))] = generator.integers(256)
        with contextlib.suppress(ModelError, TypeError):  # TypeError: the graph has other inputs now
            torch_ocl.onnx.load(bytes(damaged))(torch.ones(2))


def test_errors_of_calls_name_the_node(device):
    text = HEAD + "net (float[N, 3] x, float[M] b) => (float[N, 3] y) { a = Neg (x)\n y = Add (a, b) }"
    for place in ("cpu", str(device)):
        module = torch_ocl.onnx.load(parser.parse_model(text), place)
        with pytest.raises(ModelError, match=r"node of 'y' \(Add, opset 17\)"):
            module(torch.ones(2, 3, device=place), torch.ones(2, device=place))


def test_errors_inside_a_branch_name_the_node():
    text = (
        HEAD
        + """
    net (float[N] x, bool c) => (float[N] y) {
      y = If (c) <
        then_branch = yes () => (float[M] a) { s = Constant <value_ints = [7]> ()
          a = Reshape (x, s) },
        else_branch = no () => (float[M] b) { b = Neg (x) }
      >
    }"""
    )
    module = torch_ocl.onnx.load(parser.parse_model(text))
    with pytest.raises(ModelError, match="Reshape"):
        module(torch.ones(2), torch.tensor(True))
    assert module(torch.ones(2), torch.tensor(False)).tolist() == [-1, -1]


def test_inputs_of_the_wrong_type():
    text = HEAD + "net (float[N] x) => (float[N] y) { y = Neg (x) }"
    representation = torch_ocl.onnx.prepare(parser.parse_model(text), "cpu")
    with pytest.raises(ModelError, match=r"input 'x'.*expected FLOAT"):
        representation.run([numpy.array([1, 2], numpy.int32)])
    with pytest.raises(ModelError, match="2 inputs are given"):
        representation.run([numpy.ones(2, numpy.float32)] * 2)


def test_a_huge_tensor_is_an_error_not_a_crash():
    text = HEAD + """net (int64[2] s) => (float[N, M] y) { y = ConstantOfShape (s) }"""
    module = torch_ocl.onnx.load(parser.parse_model(text))
    with pytest.raises(ModelError, match="ConstantOfShape"):
        module(torch.tensor([2**31, 2**31]))


def test_without_the_package_the_import_says_what_to_install():
    program = "import sys; sys.modules['onnx'] = None\nfrom torch_ocl.__main__ import main\nprint(main(['onnx', 'x']))"
    program += "\nimport torch_ocl.onnx"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    first, *_, last = done.stderr.splitlines()
    assert done.stdout == "1\n" and first.startswith("torch_ocl.onnx needs the package onnx")
    assert last.startswith("ImportError") and "pip install onnx" in last
