"""Quantized tensors: what the CPU computes, on memory of the device."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.ao import quantization

feature = pytest.mark.feature
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")

TYPES = [torch.qint8, torch.quint8, torch.qint32]


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)) * 3


def per_tensor(x, dtype):
    return torch.quantize_per_tensor(x, 0.05, 10, dtype)


def per_channel(x, dtype, axis=1):
    scales = torch.linspace(0.01, 0.2, x.size(axis)).to(x.device)
    return torch.quantize_per_channel(x, scales, torch.arange(x.size(axis), device=x.device), axis, dtype)


def float_parameters(x, dtype):
    zero_points, scales = torch.linspace(-1.5, 2.25, x.size(0)), torch.linspace(0.05, 0.1, x.size(0))
    return torch.quantize_per_channel(x, scales.to(x.device), zero_points.to(x.device), 0, dtype)


def same(actual, expected):
    """Sizes, parameters and every stored integer."""
    assert actual.device.type == "ocl" and actual.is_quantized
    assert (actual.shape, actual.dtype, actual.qscheme()) == (expected.shape, expected.dtype, expected.qscheme())
    if expected.qscheme() == torch.per_tensor_affine:
        assert (actual.q_scale(), actual.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
    else:
        assert actual.q_per_channel_axis() == expected.q_per_channel_axis()
        for name in ("q_per_channel_scales", "q_per_channel_zero_points"):
            assert getattr(actual, name)().device.type == "ocl"
            assert torch.equal(getattr(actual, name)().cpu(), getattr(expected, name)())
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())


@feature("Quantized tensors")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("quantize", [per_tensor, per_channel])
def test_quantize_and_back(quantize, dtype, device, no_fallback):
    for x in (numbers(2, 3, 5), numbers(2, 3, 4, 4).to(memory_format=torch.channels_last), numbers(4, 6).t(),
              torch.tensor([[0.025, 0.075, -0.025, 1e30, -1e30, 0.0]]), numbers(0, 3)):  # fmt: skip
        expected, actual = quantize(x, dtype), quantize(x.to(device), dtype)
        same(actual, expected)
        back = actual.dequantize()
        assert back.device.type == "ocl" and back.dtype == torch.float32
        there = expected.int_repr() < 2**30  # beyond, the CPU subtracts the zero point with an overflow
        there &= expected.int_repr() > -(2**30)
        assert torch.equal(back.cpu()[there], expected.dequantize()[there])


@feature("Quantized tensors")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("quantize", ["tensor", "channels"])
def test_ties_are_rounded_as_the_cpu_does(quantize, dtype, device, no_fallback):
    """Numbers next to the middle between two codes, where every rounding shows; infinities and NaN."""
    generator = torch.Generator().manual_seed(3)
    for scale, zero_point in ((0.1, 2), (0.05, 10), (0.0333, 31), (1 / 3, 7), (0.007, 0)):
        codes = torch.randint(-100, 200, (3001,), generator=generator) + 0.5
        x = codes * scale * (1 + torch.randint(-2, 3, (3001,), generator=generator) * 6e-8)
        x[:2] = torch.tensor([float("inf"), -float("inf")])
        if dtype != torch.qint32:  # the CPU's code for channels ends the process
            x[2] = float("nan")

        def codes_of(x, scale=scale, zero_point=zero_point):
            if quantize == "tensor":
                return torch.quantize_per_tensor(x, scale, zero_point, dtype).int_repr()
            scales, zero_points = torch.tensor([scale], dtype=torch.float64), torch.tensor([zero_point])
            return torch.quantize_per_channel(
                x[None], scales.to(x.device), zero_points.to(x.device), 0, dtype
            ).int_repr()

        assert torch.equal(codes_of(x.to(device)).cpu(), codes_of(x))


def test_float_zero_points(device, no_fallback):
    x = numbers(4, 6)
    expected, actual = float_parameters(x, torch.quint8), float_parameters(x.to(device), torch.quint8)
    same(actual, expected)
    torch.testing.assert_close(actual.dequantize().cpu(), expected.dequantize(), rtol=2e-7, atol=1e-6)


def test_types_of_half_a_byte(device):
    x = numbers(4, 6)
    expected = float_parameters(x, torch.quint4x2)
    for actual in (float_parameters(x.to(device), torch.quint4x2), expected.to(device)):
        same(actual, expected)
        assert torch.equal(actual.dequantize().cpu(), expected.dequantize())


def test_other_ways_to_make_them(device, no_fallback):
    x = numbers(3, 4)
    here = x.to(device)
    scale, zero = torch.tensor(0.1), torch.tensor(3)
    same(torch.quantize_per_tensor(here, scale.to(device), zero.to(device), torch.qint8),
         torch.quantize_per_tensor(x, scale, zero, torch.qint8))  # fmt: skip
    same(torch.quantize_per_tensor_dynamic(here, torch.quint8, False),
         torch.quantize_per_tensor_dynamic(x, torch.quint8, False))  # fmt: skip
    several = torch.quantize_per_tensor([here, here * 2], torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), torch.qint8)
    for one, factor in zip(several, (1, 2)):
        same(one, torch.quantize_per_tensor(x * factor, 0.5 / factor, factor - 1, torch.qint8))
    codes = torch.arange(-6, 6, dtype=torch.int8).view(3, 4)
    same(torch._make_per_tensor_quantized_tensor(codes.to(device), 0.5, 2),
         torch._make_per_tensor_quantized_tensor(codes, 0.5, 2))  # fmt: skip
    made = torch._empty_affine_quantized([2, 3], scale=0.5, zero_point=1, dtype=torch.quint8, device=device)
    assert made.device.type == "ocl" and made.q_scale() == 0.5 and made.shape == (2, 3)


@feature("Quantized tensors")
@pytest.mark.parametrize("quantize", [per_tensor, per_channel])
def test_moves_copies_and_views(quantize, device, no_fallback):
    expected = quantize(numbers(2, 3, 4, 4), torch.qint8)
    actual = expected.to(device)
    same(actual, expected)
    back = actual.cpu()
    assert torch.equal(back.int_repr(), expected.int_repr()) and torch.equal(back, expected)
    same(actual.clone(), expected)
    same(copy.deepcopy(actual), expected)
    same(torch.empty_like(actual).copy_(actual), expected)
    if quantize is per_tensor:
        for view in (lambda q: q[1], lambda q: q.transpose(1, 3), lambda q: q.view(6, 16), lambda q: q[:, ::2],
                     lambda q: q.reshape(-1).contiguous(), lambda q: q.unsqueeze(0).squeeze(0)):  # fmt: skip
            same(view(actual), view(expected))
        filled = actual.clone().copy_(numbers(2, 3, 4, 4).to(device) * 0.5)
        same(filled, expected.clone().copy_(numbers(2, 3, 4, 4) * 0.5))


def test_printing_and_saving(device):
    expected = per_tensor(numbers(2, 3), torch.qint8)
    actual = expected.to(device)
    text = repr(actual)
    assert "scale=0.05" in text and "ocl:0" in text and repr(expected.dequantize())[7:30] in text
    file = io.BytesIO()
    torch.save(actual, file)
    file.seek(0)
    same(torch.load(file), expected)
    file.seek(0)
    assert torch.equal(torch.load(file, map_location="cpu"), expected)


def weight(q, *shape):
    """Quantized per channel, on the device of q."""
    scales = torch.linspace(0.01, 0.03, shape[0]).to(q.device)
    zero_points = torch.zeros(shape[0], dtype=torch.int64, device=q.device)
    return torch.quantize_per_channel(numbers(*shape).to(q.device), scales, zero_points, 0, torch.qint8)


def linear(q):
    packed = torch.ops.quantized.linear_prepack(weight(q, 5, 4), numbers(5).to(q.device))
    return torch.ops.quantized.linear(q, packed, 0.1, 3)


def linear_dynamic(q):
    packed = torch.ops.quantized.linear_prepack(weight(q, 5, 4), None)
    return torch.ops.quantized.linear_dynamic(q.dequantize(), packed, False)


def conv2d(q):
    packed = torch.ops.quantized.conv2d_prepack(weight(q, 5, 3, 3, 3), None, [1, 1], [1, 1], [1, 1], 1)
    return torch.ops.quantized.conv2d(q, packed, 0.1, 3)


def assigned(q):
    q = q.clone()
    q[0] = 1.0
    return q


OPERATORS = {
    "linear": linear,
    "linear, dynamic": linear_dynamic,
    "conv2d": conv2d,
    "add_relu": lambda q: torch.ops.quantized.add_relu(q, q, 0.1, 5),
    "layer_norm": lambda q: torch.ops.quantized.layer_norm(q, [4], None, None, 1e-5, 0.1, 3),
    "average pooling": lambda q: nn.functional.avg_pool2d(q, 2),
    "clamp": lambda q: q.clamp(0, 1),
    "in place relu": lambda q: torch.relu_(q.clone()),
    "flip": lambda q: q.flip(1),
    "sort": lambda q: q.sort(-1)[0],
    "stack": lambda q: torch.stack([q, q]),
    "item": lambda q: torch.tensor(q[0, 0, 0, 0].item()),
    "indices": lambda q: q[torch.tensor([1, 0], device=q.device)],
    "cat, channels last": lambda q: torch.cat([q.contiguous(memory_format=torch.channels_last)] * 2, 1),
    "assignment": assigned,
    "add": lambda q: torch.ops.quantized.add(q, q, 0.1, 5),
    "mul": lambda q: torch.ops.quantized.mul(q, q, 0.3, 5),
    "cat": lambda q: torch.ops.quantized.cat([q, q], 1, 0.1, 2),
    "torch.cat": lambda q: torch.cat([q, q], 1),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "max pooling": lambda q: nn.functional.max_pool2d(q, 2),
    "mean": lambda q: q.mean((2, 3)),
    "interpolation": lambda q: nn.functional.interpolate(q, scale_factor=2),
    "comparison": lambda q: q > 0.3,
    "index": lambda q: q.index_select(1, torch.tensor([2, 0], device=q.device)),
    "equal": lambda q: torch.tensor(torch.equal(q, q.clone())),
    "fill": lambda q: q.clone().fill_(1.5),
}


@feature("Quantized tensors")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, device):
    q = per_tensor(numbers(2, 3, 4, 4), torch.quint8)
    expected, actual = OPERATORS[name](q), OPERATORS[name](q.to(device))
    if expected.is_quantized:
        same(actual, expected)
    else:
        assert torch.equal(actual.cpu(), expected)


def test_bad_input(device):
    x = numbers(3, 4)
    for call in (lambda t: torch.quantize_per_tensor(t.double(), 0.1, 0, torch.qint8),
                 lambda t: torch.quantize_per_tensor(t, 0.1, 300, torch.qint8),
                 lambda t: t.clone().copy_(per_tensor(t, torch.qint8)),
                 lambda t: per_tensor(t, torch.qint8).copy_(per_tensor(t, torch.quint8)),
                 lambda t: t.int_repr(), lambda t: per_tensor(t, torch.qint8).q_per_channel_scales()):  # fmt: skip
        with pytest.raises((RuntimeError, NotImplementedError)):
            call(x)
        with pytest.raises((RuntimeError, NotImplementedError)):
            call(x.to(device))


# ---- fake quantization, models


def test_fake_quantization(device):
    for call in (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 2, 0, 255),
                 lambda x: torch.fake_quantize_per_channel_affine(
                     x, torch.full((5,), 0.1, device=x.device), torch.zeros(5, dtype=torch.int32, device=x.device), 1,
                     -20, 20)):  # fmt: skip
        host, here = numbers(4, 5).requires_grad_(), numbers(4, 5).to(device).requires_grad_()
        expected, actual = call(host), call(here)
        expected.sum().backward()
        actual.sum().backward()
        assert actual.device.type == here.grad.device.type == "ocl"
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=2e-7, atol=0)
        assert torch.equal(here.grad.cpu(), host.grad)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.relu, self.fc = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8, 5)

    def forward(self, x):
        y = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(y.mean((2, 3))))


@feature("Quantized tensors")
def test_a_converted_model(device):
    torch.manual_seed(2)
    model = Network().eval()
    model.qconfig = quantization.get_default_qconfig(torch.backends.quantized.engine)
    prepared = quantization.prepare(quantization.fuse_modules(model, [["conv", "relu"]]))
    prepared(numbers(4, 3, 6, 6))
    converted = quantization.convert(prepared)
    x = numbers(2, 3, 6, 6)
    expected = converted(x)
    actual = copy.deepcopy(converted).to(device)(x.to(device))
    assert actual.device.type == "ocl"
    assert torch.equal(actual.cpu(), expected)


def test_a_model_that_is_calibrated_on_the_device(device):
    def outputs(where):
        torch.manual_seed(2)
        model = Network().eval().to(where)
        model.qconfig = quantization.get_default_qconfig(torch.backends.quantized.engine)
        prepared = quantization.prepare(model)
        prepared(numbers(4, 3, 6, 6).to(where))
        converted = quantization.convert(prepared)
        return converted(numbers(2, 3, 6, 6).to(where)), converted.fc.scale

    (actual, _), (expected, step) = outputs(device), outputs("cpu")
    assert actual.device.type == "ocl" and actual.shape == (2, 5)
    # Float sums of the device are rounded otherwise, so a code may be its neighbour.
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=1.01 * step)


def test_training_with_fake_quantization(device):
    def loss(where):
        torch.manual_seed(2)
        model = Network().train().to(where)
        model.qconfig = quantization.get_default_qat_qconfig(torch.backends.quantized.engine)
        model = quantization.prepare_qat(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for _ in range(3):
            optimizer.zero_grad()
            value = model(numbers(4, 3, 6, 6).to(where)).square().mean()
            value.backward()
            optimizer.step()
        return value.detach()

    actual = loss(device)
    assert actual.device.type == "ocl"
    torch.testing.assert_close(actual.cpu(), loss("cpu"), rtol=1e-3, atol=0)  # a number rounded to the next code


def test_what_the_cpu_has_no_code_for(device):
    with pytest.raises(NotImplementedError, match="quantized tensors"):
        per_tensor(numbers(3), torch.qint8).to(device).sum()


def test_a_dynamic_model(device):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    converted = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    x = numbers(4, 6)
    actual = copy.deepcopy(converted).to(device)(x.to(device))
    assert actual.device.type == "ocl"
    assert torch.equal(actual.cpu(), converted(x))
