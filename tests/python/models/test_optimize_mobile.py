"""torch_ocl.optimize on networks for mobile devices: each block is one call, with results as exact as the CPU's own."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_ocl
from conftest import without_fallback
from torch_ocl._separable import FirstConvolution, PackedPointwise, SeparableBlock

torchvision = pytest.importorskip("torchvision")

EPS = torch.finfo(torch.float32).eps
# How many blocks a network has.
NETWORKS = {"mobilenet_v2": 17, "mobilenet_v3_small": 11, "efficientnet_b0": 16}


def with_statistics(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
    return network.eval()


def parts(network, kind):
    return [part for part in network.modules() if type(part) is kind]


def error(actual, exact):
    return ((actual.cpu().double() - exact).abs().max() / exact.abs().max()).item()


def computes_like(network, x, device, blocks=1):
    """The optimised network, on `device`; its error is within 4 times that of the CPU, or rounding."""
    faster = torch_ocl.optimize(network)
    assert len(parts(faster, SeparableBlock)) == blocks
    faster = faster.to(device)
    with torch.no_grad():
        exact, native = copy.deepcopy(network).double()(x.double()), network(x)
        with without_fallback():
            actual = faster(x.to(device))
    assert actual.device.type == "ocl"
    assert error(actual, exact) <= max(4 * error(native, exact), 16 * EPS)
    return faster


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, batch, device):
    torch.manual_seed(0)
    network = with_statistics(torchvision.models.get_model(name, num_classes=10))
    faster = computes_like(network, torch.randn(batch, 3, 96, 96), device, NETWORKS[name])
    assert len(parts(faster, FirstConvolution)) == len(parts(faster, PackedPointwise)) == 1


class Excited(nn.Module):
    """A block whose gate is computed of a mean written as a method, on both sides of the product."""

    def __init__(self, gate, gate_first):
        super().__init__()
        self.wide, self.deep = nn.Conv2d(8, 40, 1), nn.Conv2d(40, 40, 5, padding=2, groups=40)
        self.squeeze, self.excite, self.narrow = nn.Conv2d(40, 6, 1), nn.Conv2d(6, 40, 1), nn.Conv2d(40, 8, 1)
        self.gate, self.gate_first = gate, gate_first

    def forward(self, x):
        y = F.silu(self.deep(F.silu(self.wide(x))))
        gate = self.gate(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + self.narrow(gate * y if self.gate_first else y * gate)


@pytest.mark.parametrize("gate", [torch.sigmoid, F.hardsigmoid])
@pytest.mark.parametrize("gate_first", [True, False])
def test_gates(gate, gate_first, device):
    computes_like(Excited(gate, gate_first).eval(), torch.randn(2, 8, 9, 12), device)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.Identity])
@pytest.mark.parametrize("stride", [1, 2])
def test_separable_convolution_without_expansion(activation, stride, device):
    layers = [nn.Conv2d(12, 12, 3, stride, 1, groups=12), activation(), nn.Conv2d(12, 30, 1), activation()]
    computes_like(nn.Sequential(*layers).eval(), torch.randn(2, 12, 11, 14), device)


@pytest.mark.filterwarnings("ignore:torch_ocl.optimize")
def test_only_what_is_one_block_is_joined():
    """Tensors that others read, other strides, dilations and layers with groups stay as they are."""

    class Read(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep, self.narrow = nn.Conv2d(12, 12, 3, 1, 1, groups=12), nn.Conv2d(12, 8, 1)

        def forward(self, x):
            y = self.deep(x)
            return self.narrow(y), y

    for network in (
        Read(),
        nn.Sequential(nn.Conv2d(12, 12, 3, 3, 1, groups=12), nn.Conv2d(12, 8, 1)),
        nn.Sequential(nn.Conv2d(12, 12, 3, 1, 2, 2, groups=12), nn.Conv2d(12, 8, 1)),
        nn.Sequential(nn.Conv2d(12, 12, 3, 1, 1, groups=6), nn.Conv2d(12, 8, 1)),
        nn.Sequential(nn.Conv2d(12, 12, 3, 1, 1, groups=12), nn.Conv2d(12, 8, 1, 2)),
        nn.Sequential(nn.Conv2d(12, 12, 3, 1, 1, groups=12), nn.Conv2d(12, 8, 3)),
    ):
        assert not parts(torch_ocl.optimize(network.eval()), SeparableBlock)


def block():
    torch.manual_seed(1)
    layers = [nn.Conv2d(8, 40, 1), nn.ReLU6(), nn.Conv2d(40, 40, 3, 1, 1, groups=40), nn.ReLU6(), nn.Conv2d(40, 8, 1)]
    return nn.Sequential(*layers).eval()


def test_gradients_types_and_autocast_take_the_operators_themselves(device):
    network = block()
    faster = torch_ocl.optimize(network).to(device)
    x = torch.randn(2, 8, 9, 9)
    y = faster(x.to(device))
    assert y.requires_grad
    torch.testing.assert_close(y.cpu(), network(x), rtol=64 * EPS, atol=64 * EPS)
    with torch.no_grad():
        half = copy.deepcopy(faster).half()(x.half().to(device))
        assert half.dtype == torch.float16
        torch.testing.assert_close(half.float().cpu(), network(x), rtol=1e-2, atol=1e-2)
        with torch.autocast("ocl", torch.bfloat16):
            assert faster(x.to(device)).dtype == torch.bfloat16


def test_weights_that_change_are_packed_again(device):
    network = block()
    faster = torch_ocl.optimize(network).to(device)
    x = torch.randn(2, 8, 9, 9)
    with torch.no_grad():
        faster(x.to(device))
        for parameter in faster.parameters():
            parameter.mul_(0.5)
        for parameter in network.parameters():
            parameter.mul_(0.5)
        torch.testing.assert_close(faster(x.to(device)).cpu(), network(x), rtol=64 * EPS, atol=64 * EPS)
        back = faster.to("cpu")
        torch.testing.assert_close(back(x), network(x), rtol=64 * EPS, atol=64 * EPS)


def test_images_that_are_too_wide_empty_or_not_contiguous(device):
    network = block()
    faster = torch_ocl.optimize(network).to(device)
    with torch.no_grad(), without_fallback():
        for x in (torch.randn(1, 8, 2, 9000), torch.randn(0, 8, 5, 5), torch.randn(2, 8, 20, 20)[:, :, ::2, 1::3]):
            actual = faster(x.to(device))
            torch.testing.assert_close(actual.cpu(), network(x), rtol=64 * EPS, atol=64 * EPS)
        x = torch.zeros(1, 8, 6, 6)
        x[0, 3, 2, 2] = float("nan")
        assert torch.equal(faster(x.to(device)).cpu().isnan(), network(x).isnan())


def test_other_inputs_get_the_convolution_s_own_error(device):
    network = block()
    faster = torch_ocl.optimize(network).to(device)
    for shape in ((1, 7, 5, 5), (8, 5), (1, 8, 5, 5, 5)):
        with torch.no_grad(), pytest.raises(RuntimeError) as expected:
            network(torch.randn(shape))
        with torch.no_grad(), pytest.raises(RuntimeError) as actual:
            faster(torch.randn(shape, device=device))
        assert str(actual.value)[:36] == str(expected.value)[:36]
