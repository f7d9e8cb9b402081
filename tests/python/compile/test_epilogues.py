"""Activations as parts of the products and convolutions before them, in compiled inference."""

import pytest
import torch
from torch import nn
from torch._inductor import metrics
from torch._inductor.utils import run_and_get_code

from .comparison import same

pytestmark = pytest.mark.feature("Inductor")


def trained_norms(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    return network.eval()


def test_frozen_networks_have_no_kernel_for_norms_and_activations(device):
    network = trained_norms(nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU6(), nn.Conv2d(12, 10, 3, groups=2),
        nn.BatchNorm2d(10), nn.ReLU(), nn.Flatten(), nn.Linear(10 * 36, 16), nn.ReLU(), nn.Linear(16, 9)))  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        for there in (x, x.to(memory_format=torch.channels_last)):
            expected = network.to("cpu")(there)
            metrics.reset()
            torch._dynamo.reset()
            actual, code = run_and_get_code(torch.compile(network.to(device)), there.to(device))
            same(actual, expected)
            assert metrics.generated_kernel_count == (0 if there is x else 1)  # flatten() of channels last is a copy
            assert code[0].count("limited_convolution.default(") == 2
            assert code[0].count("_addmm_activation.default(") == 1
    assert torch.ocl.fallbacks() == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_bounds(device, dtype):
    weight, bias, x = torch.randn(4, 3, 3), torch.randn(4), torch.randn(2, 3, 20)
    x[0, 1, 5] = float("nan")
    x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)

    def bounded(x, weight, bias):
        y = lambda: torch.nn.functional.conv1d(x, weight, bias)
        return y().relu(), y().clamp(-0.5, 1), y().clamp(max=0.25), y().clamp(0.5, -0.5), y().clamp_min(1).clamp_max(0)

    with torch.no_grad():
        actual, code = run_and_get_code(torch.compile(bounded), x.to(device), weight.to(device), bias.to(device))
        same(actual, bounded(x, weight, bias))
    assert "limited_convolution.default(" in code[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("activation", [nn.GELU(), nn.ReLU()], ids=["gelu", "relu"])
def test_linear_layers_of_sequences(device, dtype, activation):
    """Three dimensions: the product is between two views."""
    network = nn.Sequential(nn.Linear(8, 16), activation, nn.Linear(16, 8)).to(dtype)
    x = torch.randn(2, 3, 8).to(dtype)
    metrics.reset()
    with torch.no_grad():
        expected = network(x)
        actual, code = run_and_get_code(torch.compile(network.to(device)), x.to(device))
    same(actual, expected)
    assert metrics.generated_kernel_count == 0
    assert code[0].count("_addmm_activation.default(") == 1
    assert torch.ocl.fallbacks() == {}


def test_graphs_without_implicit_fallbacks(device):
    network, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(1, 3, 5, 5)
    with torch.no_grad(), torch._inductor.config.patch(implicit_fallbacks=False):
        expected = network(x)
        actual, code = run_and_get_code(torch.compile(network.to(device)), x.to(device))
    same(actual, expected)
    assert "limited_convolution.default(" in code[0]


def test_what_must_stay_apart(device):
    """Results that something else reads, other GELUs, gradients, transposed convolutions, products that add a
    matrix."""
    x, w, b = torch.randn(5, 6), torch.randn(6, 7), torch.randn(5, 7)
    network, image = nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.ReLU()), torch.randn(1, 3, 5, 5)

    def two_readers(x, w, b):
        y = torch.addmm(b[0], x, w)
        return y.relu(), y * 2, torch.addmm(b, x, w).relu(), torch.addmm(b[1], x, w, alpha=2).relu()

    def other_gelus(x, w, b):
        y, z = torch.addmm(b[0], x, w), torch.addmm(b[1], x, w)
        nearly = z * 0.5 * (1 + torch.erf(z * 0.7))
        return nn.functional.gelu(y), y, nearly, nn.functional.gelu(torch.addmm(b[2], x, w), approximate="tanh")

    with torch.no_grad():
        for function, values in ((two_readers, (x, w, b)), (other_gelus, (x, w, b)), (network, (image,))):
            expected = function(*values)
            there = function.to(device) if isinstance(function, nn.Module) else function
            actual, code = run_and_get_code(torch.compile(there), *(value.to(device) for value in values))
            same(actual, expected)
            assert "limited_convolution" not in code[0]
            assert "_addmm_activation" not in code[0]
    layer, x = nn.Linear(6, 7), torch.randn(5, 6)
    layer(x).relu().sum().backward()
    expected = layer.weight.grad.clone()
    layer = layer.to(device)
    layer.zero_grad()
    torch.compile(lambda x: layer(x).relu())(x.to(device)).sum().backward()
    same(layer.weight.grad, expected)
