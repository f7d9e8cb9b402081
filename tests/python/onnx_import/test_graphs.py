"""Graphs written out: control flow, functions, sequences, quantization, external data, other opsets."""

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, parser

import torch_ocl.onnx
from torch_ocl.onnx import backend


def run(text, *inputs, device="cpu"):
    representation = torch_ocl.onnx.prepare(parser.parse_model(text), device)
    return list(representation.run([numpy.asarray(x) if not isinstance(x, list) else x for x in inputs]))


HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def test_branches_of_different_shapes(device):
    text = (
        HEAD
        + """
    net (float[N] x, bool c) => (float[M] y) {
      y = If (c) <
        then_branch = yes () => (float[M] a) { a = Concat <axis = 0> (x, x) },
        else_branch = no () => (float[M] b) { b = Neg (x) }
      >
    }"""
    )
    x = numpy.array([1, 2], numpy.float32)
    for place in ("cpu", str(device)):
        assert run(text, x, True, device=place)[0].tolist() == [1, 2, 1, 2]
        assert run(text, x, False, device=place)[0].tolist() == [-1, -2]


def test_a_known_condition_leaves_no_branch():
    text = (
        HEAD
        + """
    net (float[2, N] x) => (float[M] y) {
      zero = Constant <value_int = 0> ()
      one = Constant <value_int = 1> ()
      c = Equal (zero, one)
      y = If (c) <
        then_branch = yes () => (float[M] a) { a = Neg (x) },
        else_branch = no () => (float[M] b) { b = Abs (x) }
      >
    }"""
    )
    module = torch_ocl.onnx.load(parser.parse_model(text))
    assert not any(node.op == "call_module" for node in module.graph.nodes)
    assert module(torch.tensor([[-1.0], [2.0]])).tolist() == [[1], [2]]


LOOP = (
    HEAD
    + """
net (float[2] x, int64 n) => (float[2] last, float[K, 2] all) {
  go = Constant <value = bool {1}> ()
  last, all = Loop (n, go, x) <
    body = step (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) {
      d = Identity (c)
      two = Constant <value_float = 2.0> ()
      t = Mul (s, two)
      f = Cast <to = 1> (i)
      u = Add (t, f)
    }
  >
}"""
)


@pytest.mark.parametrize("count", [0, 3])
def test_loops(count, device):
    x = numpy.array([1, 3], numpy.float32)
    for place in ("cpu", str(device)):
        last, everything = run(LOOP, x, numpy.int64(count), device=place)
        assert numpy.array_equal(last, x * 2**count)
        assert everything.shape == (count, 2)
        assert numpy.array_equal(everything, [x * 2 ** (i + 1) + i for i in range(count)] or numpy.zeros((0, 2)))


def test_a_loop_that_ends_by_its_condition():
    text = (
        HEAD
        + """
    net (int64 x) => (int64 y) {
      go = Constant <value = bool {1}> ()
      y = Loop (, go, x) <
        body = step (int64 i, bool c, int64 s) => (bool d, int64 t) {
          t = Add (s, s)
          limit = Constant <value_int = 100> ()
          d = Less (t, limit)
        }
      >
    }"""
    )
    assert run(text, numpy.int64(3))[0] == 192


def test_scan_and_outer_names():
    text = (
        HEAD
        + """
    net (float[3, 2] x, float[2] w, float[2] first) => (float[2] last, float[3, 2] sums) {
      last, sums = Scan <num_scan_inputs = 1, body = step (float[2] s, float[2] e) => (float[2] t, float[2] u) {
        p = Mul (e, w)
        t = Add (s, p)
        u = Identity (t)
      }> (first, x)
    }"""
    )
    x = numpy.arange(6, dtype=numpy.float32).reshape(3, 2)
    w, first = numpy.array([1, 10], numpy.float32), numpy.array([5, 5], numpy.float32)
    last, sums = run(text, x, w, first)
    assert numpy.array_equal(sums, numpy.cumsum(x * w, 0) + first)
    assert numpy.array_equal(last, sums[-1])


FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
net (float[N] x) => (float[N] y) { y = own.twice_scaled <factor = 3.0> (x) }
<domain: "own", opset_import: ["" : 13, "own" : 1]>
scaled <factor> (a) => (b) {
  f = Constant <value_float : float = @factor> ()
  b = Mul (a, f)
}
<domain: "own", opset_import: ["" : 13, "own" : 1]>
twice_scaled <factor> (a) => (c) {
  b = own.scaled <factor : float = @factor> (a)
  c = own.scaled <factor : float = @factor> (b)
}"""


def test_functions_in_functions():
    assert run(FUNCTIONS, numpy.array([1, 2], numpy.float32))[0].tolist() == [9, 18]


def test_sequences_and_absent_optionals():
    text = (
        HEAD
        + """
    net (float[N] x, float[M] y) => (seq(float[K]) s, int64 n, float[K] z) {
      e = SequenceEmpty ()
      a = SequenceInsert (e, x)
      s = SequenceInsert (a, y)
      n = SequenceLength (s)
      z = ConcatFromSequence <axis = 0> (s)
    }"""
    )
    sequence, count, joined = run(text, numpy.ones(2, numpy.float32), numpy.zeros(1, numpy.float32))
    assert [part.tolist() for part in sequence] == [[1, 1], [0]] and count == 2 and joined.tolist() == [1, 1, 0]


def test_shapes_stay_on_the_host(device, no_fallback):
    text = (
        HEAD
        + """
    net (float[B, C, H, W] x) => (float[D, E] y, int64[4] shape) {
      shape = Shape (x)
      zero = Constant <value_ints = [0]> ()
      batch = Gather <axis = 0> (shape, zero)
      rest = Constant <value_ints = [-1]> ()
      target = Concat <axis = 0> (batch, rest)
      y = Reshape (x, target)
    }"""
    )
    module = torch_ocl.onnx.load(parser.parse_model(text), device)
    assert module.meta["onnx"]["waits"] == 0
    y, shape = module(torch.ones(2, 3, 4, 5, device=device))
    assert y.shape == (2, 60) and y.device.type == "ocl" and shape.tolist() == [2, 3, 4, 5]


def test_quantized_products_are_integers(device, no_fallback):
    text = (
        HEAD
        + """
    net (uint8[2, 300] a, int8[300, 3] b) => (int32[2, 3] y) { y = MatMulInteger (a, b) }"""
    )
    generator = numpy.random.default_rng(0)
    a, b = generator.integers(0, 256, (2, 300), numpy.uint8), generator.integers(-128, 128, (300, 3), numpy.int8)
    assert numpy.array_equal(run(text, a, b, device=str(device))[0], a.astype(numpy.int32) @ b.astype(numpy.int32))


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"])
def test_casts_to_small_floats_equal_those_of_numpy(kind, device, no_fallback):
    element = getattr(TensorProto, kind)
    values = numpy.concatenate([numpy.linspace(-20, 20, 401), 2.0 ** numpy.arange(-20, 7), [0.0, -0.0]])
    values = values.astype(numpy.float32)
    text = (
        HEAD.replace("17", "23")
        + f"net (float[N] x) => (float[N] y) {{ a = Cast <to = {element}> (x)\n y = Cast <to = 1> (a) }}"
    )
    result = run(text, values, device=str(device))[0]
    dtype = helper.tensor_dtype_to_np_dtype(element)
    expected = onnx.numpy_helper.saturate_cast(values, dtype).astype(numpy.float32)
    assert numpy.array_equal(result, expected)


def external(folder, location="data.bin", shape=(2, 3), offset=4096, length=None):
    """A model that adds an external tensor of ones behind a hole in its file."""
    size = int(numpy.prod(shape)) * 4
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": size if length is None else length}.items():
        tensor.external_data.add(key=key, value=str(value))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "net",
        [info("x", TensorProto.FLOAT, ["N", shape[-1]])],
        [info("y", TensorProto.FLOAT, ["N", shape[-1]])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with open(folder / "data.bin", "wb") as file:
        file.seek(offset)
        file.write(numpy.ones(shape, numpy.float32).tobytes())
    return path


@pytest.mark.parametrize("offset", [4096, 3 * 2**30])  # behind 2 GB the file is sparse
def test_external_data_is_mapped(tmp_path, offset):
    path = external(tmp_path, offset=offset)
    module = torch_ocl.onnx.load(path)
    assert module(torch.zeros(2, 3)).tolist() == [[1, 1, 1]] * 2
    with torch.no_grad():
        module.w.add_(1)  # copy on write: the file keeps its ones
    assert torch_ocl.onnx.load(path)(torch.zeros(2, 3)).tolist() == [[1, 1, 1]] * 2
    with pytest.raises(torch_ocl.onnx.ModelError, match="load the model by its path"):
        torch_ocl.onnx.load(path.read_bytes())


@pytest.mark.parametrize("location", ["../data.bin", "/etc/passwd", "", "link/../../data.bin", "absent.bin"])
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "data.bin").write_bytes(bytes(10000))
    with pytest.raises(torch_ocl.onnx.ModelError, match=r"outside the folder|does not exist"):
        torch_ocl.onnx.load(external(inner, location))


def test_external_data_of_another_length_is_refused(tmp_path):
    with pytest.raises(torch_ocl.onnx.ModelError, match="needs 24 bytes"):
        torch_ocl.onnx.load(external(tmp_path, length=20))


def test_detector_with_suppression(device):
    text = (
        HEAD
        + """
    net (float[1, N, 4] boxes, float[1, 2, N] scores) => (int64[K, 3] kept, float[K] best) {
      most = Constant <value_ints = [2]> ()
      iou = Constant <value_floats = [0.5]> ()
      low = Constant <value_floats = [0.1]> ()
      kept = NonMaxSuppression (boxes, scores, most, iou, low)
      places = Constant <value_ints = [2]> ()
      index = Gather <axis = 1> (kept, places)
      flat = Reshape (index, minus)
      all = ReduceMax <axes = [0, 1], keepdims = 0> (scores)
      best = Gather (all, flat)
    }""".replace("flat = Reshape", "minus = Constant <value_ints = [-1]> ()\n      flat = Reshape")
    )
    boxes = numpy.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [3, 3, 2, 2]]], numpy.float32)
    scores = numpy.array([[[0.9, 0.8, 0.7, 0.05], [0.0, 0.3, 0.2, 0.6]]], numpy.float32)
    for place in ("cpu", str(device)):
        kept, best = run(text, boxes, scores, device=place)
        assert kept.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 3], [0, 1, 1]]
        assert numpy.allclose(best, [0.9, 0.7, 0.6, 0.8])


def test_one_node():
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    assert backend.run_node(node, [numpy.array([1, 5], numpy.float32), numpy.float32(3)], "cpu")[0].tolist() == [1, 3]
    assert backend.supports_device("CPU") and backend.supports_device("ocl") and not backend.supports_device("xyz")


def test_initializers_that_are_inputs_can_be_replaced():
    weight = numpy_helper.from_array(numpy.array([2.0, 3.0], numpy.float32), "w")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("w", "x", "y")]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "net", info[:2], info[2:], [weight])
    module = torch_ocl.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert module(torch.ones(2)).tolist() == [2, 3]
    assert module(torch.ones(2), w=torch.tensor([5.0, 6.0])).tolist() == [5, 6]


def test_names_that_python_does_not_have():
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a.b", "a_b", "self", "in", "0", "y")]
    nodes = [
        helper.make_node("Sum", ["a.b", "a_b", "self", "in", "0"], ["lambda"]),
        helper.make_node("Neg", ["lambda"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "class", info[:5], info[5:])
    prepared = torch_ocl.onnx.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "cpu")
    arrays = {entry.name: numpy.full(2, 10**i, numpy.float32) for i, entry in enumerate(info[:5])}
    assert prepared.run(arrays)[0].tolist() == [-11111] * 2
    assert prepared.module(*map(torch.from_numpy, arrays.values())).tolist() == [-11111] * 2


def test_broadcasting_of_opset_6():
    text = """<ir_version: 3, opset_import: ["" : 6]>
    net (float[2, 3] x, float[2] b) => (float[2, 3] y) { y = Add <broadcast = 1, axis = 0> (x, b) }"""
    assert run(text, numpy.zeros((2, 3), numpy.float32), numpy.array([1, 2], numpy.float32))[0].tolist() == [
        [1] * 3,
        [2] * 3,
    ]
