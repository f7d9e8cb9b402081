"""Small networks of the shapes that people have, made node by node, with sizes that are known only when they run."""

from collections.abc import Callable

import numpy
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 20


class Net:
    """A graph that grows: a call adds a node and gives the name of its first output."""

    def __init__(self, dtype=numpy.float32):
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(0)
        self.dtype = numpy.dtype(dtype)

    def constant(self, array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def weight(self, *sizes: int, scale: float | None = None) -> str:
        fan = numpy.prod(sizes[1:]) if len(sizes) > 1 else sizes[0]
        values = self.random.normal(size=sizes) * (scale or fan**-0.5)
        return self.constant(values.astype(self.dtype))

    def __call__(self, op: str, *inputs: str, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def model(self, inputs: dict, output: str) -> ModelProto:
        """`inputs`: name -> (element type, sizes); the output's sizes are left open."""
        infos = [helper.make_tensor_value_info(name, *what) for name, what in inputs.items()]
        element = helper.np_dtype_to_tensor_dtype(self.dtype)
        result = helper.make_tensor_value_info(output, element, None)
        graph = helper.make_graph(self.nodes, "net", infos, [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    def element(self) -> int:
        return helper.np_dtype_to_tensor_dtype(self.dtype)

    # ---- blocks
    def conv(self, x: str, channels: int, out: int, kernel: int = 3, groups: int = 1, **attributes) -> str:
        pads = [kernel // 2] * 4
        return self("Conv", x, self.weight(out, channels // groups, kernel, kernel), self.weight(out, scale=0.1),
                    group=groups, **{"pads": pads, **attributes})  # fmt: skip

    def batch_norm(self, x: str, channels: int) -> str:
        ones, small = numpy.ones(channels, self.dtype), self.weight(channels, scale=0.1)
        return self("BatchNormalization", x, self.constant(ones), small, small, self.constant(ones * 1.5))

    def linear(self, x: str, width: int, out: int) -> str:
        return self("Add", self("MatMul", x, self.weight(width, out)), self.weight(out, scale=0.1))

    def layer_norm(self, x: str, width: int) -> str:
        return self("LayerNormalization", x, self.constant(numpy.ones(width, self.dtype)),
                    self.weight(width, scale=0.1), axis=-1)  # fmt: skip


def resnet(dtype=numpy.float32) -> tuple[ModelProto, Callable]:
    n = Net(dtype)
    x = n("Relu", n.batch_norm(n.conv("x", 3, 16, 7, strides=[2, 2]), 16))
    x = n("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for channels, out, stride in ((16, 16, 1), (16, 32, 2)):
        inner = n("Relu", n.batch_norm(n.conv(x, channels, out, strides=[stride, stride]), out))
        inner = n.batch_norm(n.conv(inner, out, out), out)
        if stride > 1:
            x = n.batch_norm(n.conv(x, channels, out, 1, strides=[stride, stride], pads=[0, 0, 0, 0]), out)
        x = n("Relu", n("Add", inner, x))
    x = n("Flatten", n("GlobalAveragePool", x))
    y = n("Gemm", x, n.weight(10, 32), n.weight(10, scale=0.1), transB=1)
    return n.model({"x": (n.element(), ["n", 3, "h", "w"])}, y), lambda b: {"x": images(b, 3, 64, dtype)}


def mobilenet(dtype=numpy.float32) -> tuple[ModelProto, Callable]:
    n = Net(dtype)
    low, high = n.constant(numpy.array(0, dtype)), n.constant(numpy.array(6, dtype))
    x = n("HardSwish", n.batch_norm(n.conv("x", 3, 16, strides=[2, 2]), 16))
    for channels, out, stride in ((16, 16, 1), (16, 24, 2)):
        wide = 3 * channels
        inner = n("Clip", n.conv(x, channels, wide, 1), low, high)
        inner = n("Clip", n.conv(inner, wide, wide, 5, groups=wide, strides=[stride, stride]), low, high)
        squeezed = n("Relu", n.conv(n("ReduceMean", inner, n.constant([2, 3]), keepdims=1), wide, 8, 1))
        gate = n("HardSigmoid", n.conv(squeezed, 8, wide, 1), alpha=1 / 6, beta=0.5)
        inner = n.conv(n("Mul", inner, gate), wide, out, 1)
        x = inner if stride > 1 else n("Add", inner, x)
    x = n("Softmax", n.linear(n("Flatten", n("GlobalAveragePool", x)), 24, 10), axis=-1)
    return n.model({"x": (n.element(), ["n", 3, 48, 48])}, x), lambda b: {"x": images(b, 3, 48, dtype)}


def attention(n: Net, x: str, mask: str, width: int, heads: int) -> str:
    """Sizes are computed from the input's, as exporters write them."""
    shape = n("Shape", x)
    batch, length = (n("Gather", shape, n.constant(i), axis=0) for i in (0, 1))
    one = n.constant([0])
    sizes = n("Concat", n("Unsqueeze", batch, one), n("Unsqueeze", length, one), n.constant([heads]),
              n.constant([width // heads]), axis=0)  # fmt: skip
    q, k, v = (n("Transpose", n("Reshape", n.linear(x, width, width), sizes), perm=[0, 2, 1, 3]) for _ in range(3))
    scores = n("MatMul", q, n("Transpose", k, perm=[0, 1, 3, 2]))
    scores = n("Div", scores, n.constant(numpy.array((width // heads) ** 0.5, n.dtype)))
    weights = n("Softmax", n("Add", scores, mask), axis=-1)
    out = n("Transpose", n("MatMul", weights, v), perm=[0, 2, 1, 3])
    return n.linear(n("Reshape", out, n.constant([0, 0, width])), width, width)


def bert(dtype=numpy.float32, width: int = 64, heads: int = 4) -> tuple[ModelProto, Callable]:
    n = Net(dtype)
    length = n("Gather", n("Shape", "ids"), n.constant([1]), axis=0)
    positions = n("Slice", n.weight(40, width, scale=1), n.constant([0]), length, n.constant([0]))
    x = n.layer_norm(n("Add", n("Gather", n.weight(100, width, scale=1), "ids"), positions), width)
    mask = n("Cast", n("Unsqueeze", "mask", n.constant([1, 2])), to=n.element())
    mask = n("Mul", n("Sub", n.constant(numpy.array(1, dtype)), mask), n.constant(numpy.array(-1e4, dtype)))
    for _ in range(2):
        x = n.layer_norm(n("Add", x, attention(n, x, mask, width, heads)), width)
        x = n.layer_norm(n("Add", x, n.linear(gelu(n, n.linear(x, width, 4 * width)), 4 * width, width)), width)
    y = n("Tanh", n.linear(n("Gather", x, n.constant(0), axis=1), width, width))
    inputs = {"ids": (TensorProto.INT64, ["n", "t"]), "mask": (TensorProto.INT64, ["n", "t"])}

    def feed(batch: int) -> dict:
        random = numpy.random.default_rng(batch)
        mask = numpy.ones((batch, 9 + batch), numpy.int64)
        mask[:, -2:] = 0
        return {"ids": random.integers(0, 100, mask.shape), "mask": mask}

    return n.model(inputs, y), feed


def gelu(n: Net, x: str) -> str:
    half, one, root = (n.constant(numpy.array(v, n.dtype)) for v in (0.5, 1, 2**0.5))
    return n("Mul", n("Mul", x, n("Add", n("Erf", n("Div", x, root)), one)), half)


def unet(dtype=numpy.float32) -> tuple[ModelProto, Callable]:
    n = Net(dtype)
    top = n("LeakyRelu", n("InstanceNormalization", n.conv("x", 3, 8), n.constant(numpy.ones(8, dtype)),
                           n.weight(8, scale=0.1)))  # fmt: skip
    low = n("Sigmoid", n.conv(n("AveragePool", top, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    scales = n.constant(numpy.array([1, 1, 2, 2], numpy.float32))
    up = n("Resize", low, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    deconv = n("ConvTranspose", low, n.weight(16, 8, 2, 2), n.weight(8, scale=0.1), strides=[2, 2])
    joined = n("Concat", top, up, deconv, axis=1)
    padded = n("Pad", joined, n.constant([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect")
    return (
        n.model({"x": (n.element(), ["n", 3, "h", "w"])}, n.conv(padded, 32, 2, pads=[0, 0, 0, 0])),
        lambda b: {"x": images(b, 3, 16 + 2 * b, dtype)},
    )


def images(batch: int, channels: int, size: int, dtype) -> numpy.ndarray:
    return numpy.random.default_rng(batch).normal(size=(batch, channels, size, size)).astype(dtype)


NETS = {"resnet": resnet, "mobilenet": mobilenet, "bert": bert, "unet": unet}
