"""FakeTensorMode predicts sizes, strides and types of results as the device gives them: compiled code relies on it.

Each day other operators of PyTorch's database have their turn; `--full` runs all of them.
"""

import itertools

import pytest
import torch
from torch._subclasses import fake_tensor
from torch.utils import _pytree

from conformance import cases, place, samples

TURN, SAMPLES = 30, 3
# Operators whose prediction is another one; each entry must still differ when it has its turn.
DIFFERENT = {
    "nn.functional.pixel_shuffle": "by a factor of 1, channels last stay so",
    "nn.functional.max_unpool2d": "the compiler does not call it, but writes it as a scatter",
    "nn.functional.max_unpool2d.grad": "the same",
}
LEFT_OUT = ("tensor_split",)  # reads its indices on the CPU
NAMES = [
    name
    for name, op in cases.operators().items()
    if torch.float32 in op.supported_dtypes("cpu") and name not in LEFT_OUT
]
NOT_PREDICTED = (
    fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException, fake_tensor.UnsupportedOperatorException,
)  # fmt: skip


def facts(tensor):
    """What must be equal. The stride of a dimension of one element, and any of an empty tensor, mean nothing."""
    if tensor.layout is not torch.strided:
        return tensor.layout
    strides = [s if n > 1 else None for s, n in zip(tensor.stride(), tensor.shape, strict=True)]
    return tuple(tensor.shape), strides if tensor.numel() else None, tensor.dtype, tensor.device.type


def outcome(op, values):
    result = samples.call(op.op, values)
    return [facts(leaf) for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def predicted(op, values):
    mode = fake_tensor.FakeTensorMode()
    fakes = _pytree.tree_map_only(torch.Tensor, mode.from_tensor, values)
    with mode:
        return outcome(op, fakes)


def differences(name):
    op = cases.operators()[name]
    for sample, layout in itertools.product(samples.samples_of(op, torch.float32, SAMPLES), place.LAYOUTS):
        arguments = samples.arguments(sample, op)
        if layout == "channels_last" and not samples.has_channels(arguments):
            continue
        try:
            values = place.place_all(arguments, "ocl", layout)
            real = outcome(op, values)
        except (RuntimeError, place.Unsupported) as error:  # a layout that the operator refuses
            if layout == "plain" and not isinstance(error, place.Unsupported):
                raise
            continue
        try:
            fake = predicted(op, values)
        except NOT_PREDICTED:
            continue
        if fake != real:
            yield f"{layout} {samples.describe(sample)}: predicted {fake}, is {real}"


def failing(name):
    found = list(differences(name))
    if name in DIFFERENT:
        return [] if found else [f"{name} is in DIFFERENT, but does not differ"]
    return [f"{name}, {text}" for text in found]


def test_prediction(device, operator):
    assert failing(operator) == []


MENDED = (
    "nn.functional.conv2d", "nn.functional.conv_transpose2d", "nn.functional.group_norm",
    "nn.functional.scaled_dot_product_attention", "nn.functional.channel_shuffle",
)  # fmt: skip


@pytest.mark.parametrize("name", MENDED)
def test_operators_with_a_rule_of_ours(device, name):
    assert failing(name) == []


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_gradients_with_a_rule_of_ours(device, format):
    x, w = torch.randn(2, 4, 6, 6, device=device), torch.randn(8, 4, 3, 3, device=device)
    x, w = x.contiguous(memory_format=format), w.contiguous(memory_format=format)

    def gradients(x, w):
        g = torch.ones(2, 8, 4, 4, device=device)
        sides = ([1, 1], [0, 0], [1, 1])
        made = torch.ops.aten.convolution_backward(g, x, w, [8], *sides, False, [0, 0], 1, [True, True, True])
        q = x.flatten(2)[None].expand(2, -1, -1, -1).contiguous().requires_grad_()
        torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
        return [facts(t) for t in (*made, q.grad)]

    mode = fake_tensor.FakeTensorMode()
    with mode:
        expected = gradients(mode.from_tensor(x), mode.from_tensor(w))
    assert gradients(x, w) == expected
