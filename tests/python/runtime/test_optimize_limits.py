"""torch_ocl.optimize: activations that cut off are part of the convolution before them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_ocl
from torch_ocl._limits import limited_convolution

EPS = torch.finfo(torch.float32).eps
ACTIVATIONS = {"relu": nn.ReLU(), "relu6": nn.ReLU6(), "hardtanh": nn.Hardtanh(-0.3, 0.5)}


def joined(network):
    return [node for node in network.graph.nodes if node.target is limited_convolution]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_one_kernel_gives_the_same(axes, name, device, no_fallback):
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    network = nn.Sequential(kind(4, 9, 3, padding=1, bias=axes != 2), ACTIVATIONS[name], kind(9, 9, 3, 2, groups=9))
    network = nn.Sequential(*network, ACTIVATIONS[name]).to(device)
    quick = torch_ocl.optimize(network)
    assert len(joined(quick)) == 2 and list(quick.state_dict()) == list(network.state_dict())
    x = torch.randn(2, 4, *[9] * axes, device=device)
    with torch.no_grad():
        # sums of up to 4 * 27 products in two layers
        torch.testing.assert_close(quick(x), network(x), rtol=64 * EPS, atol=64 * EPS)
    assert quick(x).requires_grad  # with gradients: the operators themselves
    torch.testing.assert_close(quick(x), network(x), rtol=64 * EPS, atol=64 * EPS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_types(dtype, device):
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6()).to(device, dtype)
    x = torch.randn(2, 3, 9, 9, device=device, dtype=dtype)
    with torch.no_grad():
        actual, expected = torch_ocl.optimize(network)(x), network(x)
    assert actual.dtype == dtype
    assert torch.equal(actual, expected)


def test_channels_last_and_no_batch(device, no_fallback):
    network = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU()).to(device)
    quick = torch_ocl.optimize(network)
    x = torch.randn(2, 8, 9, 9, device=device)
    with torch.no_grad():
        last = quick(x.to(memory_format=torch.channels_last))
        assert last.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(last, network(x), rtol=32 * EPS, atol=32 * EPS)
        torch.testing.assert_close(quick(x[0]), network(x[0]), rtol=32 * EPS, atol=32 * EPS)


def test_nan_stays(device):
    quick = torch_ocl.optimize(nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU()).to(device))
    x = torch.zeros(1, 1, 4, 4, device=device)
    x[0, 0, 1, 2] = float("nan")
    with torch.no_grad():
        assert quick(x).isnan().sum() == 8


def test_results_that_others_read_stay(device):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            y = self.conv(x)
            return F.relu(y) + y

    quick = torch_ocl.optimize(nn.Sequential(Both()).to(device))
    assert not joined(quick)


def test_padding_that_is_not_zeros_stays():
    for network in (nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), nn.Conv2d(3, 8, 3, padding="same")):
        assert not joined(torch_ocl.optimize(nn.Sequential(network, nn.ReLU())))


def test_sizes_without_data(device):
    quick = torch_ocl.optimize(nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU()).to(device))
    meta = torch.ops.ocl.limited_convolution(
        torch.empty(2, 3, 9, 9, device="meta"), torch.empty(8, 3, 3, 3, device="meta"), None, [2, 2], [0, 0], [1, 1],
        1, 0.0, 6.0,
    )  # fmt: skip
    with torch.no_grad():
        assert meta.shape == quick(torch.randn(2, 3, 9, 9, device=device)).shape


def test_bad_input_is_pytorchs_error(device):
    quick = torch_ocl.optimize(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).to(device))
    with torch.no_grad(), pytest.raises(RuntimeError, match="Given groups=1, weight of size"):
        quick(torch.randn(2, 4, 9, 9, device=device))
    with torch.no_grad(), pytest.raises(RuntimeError, match="Input type"):
        quick(torch.randn(2, 3, 9, 9))
    with torch.no_grad(), pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        quick(torch.randn(2, 3, 2, 2, device=device))
