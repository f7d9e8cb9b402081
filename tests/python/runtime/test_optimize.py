"""torch_ocl.optimize: the same outputs, fewer operators, the given model untouched."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_ocl
from benchmarks.models import IMAGE_NETWORKS


def trained(network, images):
    """Batch norms with statistics and parameters that are not the initial ones."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        network.train()(images)
    return network.eval()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "vgg16"])
def test_networks_keep_their_outputs(name, device, no_fallback):
    case = IMAGE_NETWORKS[name]
    images = case.batch(4, case.small, seed=1)[0]
    model = trained(case.build(), images)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    faster = torch_ocl.optimize(model.to(device))
    assert not any(isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.Dropout)) for module in faster.modules())
    with torch.no_grad():
        expected, actual = model(images.to(device)), faster(images.to(device))
    assert actual.device.type == device
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())
    for key, value in model.state_dict().items():
        assert torch.equal(value.cpu(), before[key]), key


class Branching(nn.Module):
    """Not traceable as a whole: the number of layers depends on the data."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.shared = nn.BatchNorm2d(8)

    def forward(self, x):
        x = self.stem(x)
        if x.sum() > 0:
            x = self.shared(x) + F.relu(self.shared(x))
        return x


def test_parts_of_untraceable_models(device):
    images = torch.randn(2, 3, 9, 9)
    model = trained(Branching(), images).to(device)
    faster = torch_ocl.optimize(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in faster.stem.modules()) and isinstance(
        faster.shared, nn.BatchNorm2d
    )
    torch.testing.assert_close(faster(images.to(device)), model(images.to(device)), rtol=1e-4, atol=1e-4)


class Shares(nn.Module):
    """The input of the ReLU is read again, the convolution is called twice, and a hook watches a block."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.other = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        a = self.other(x)
        b = F.relu(a) + a
        return self.norm(self.conv(b)) + self.conv(x)


def test_shared_layers_and_values_stay(device):
    images = torch.randn(2, 3, 9, 9)
    model = trained(Shares(), images).to(device)
    torch.testing.assert_close(
        torch_ocl.optimize(model)(images.to(device)), model(images.to(device)), rtol=1e-5, atol=1e-5
    )
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output))
    torch_ocl.optimize(model)(images.to(device))
    assert len(seen) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add_relu(dtype, device, no_fallback):
    a, b = (
        torch.tensor([1.0, -2.0, float("nan"), float("inf")], dtype=dtype),
        torch.tensor([[-3.0], [0.5]], dtype=dtype),
    )
    expected = F.relu(a + 2 * b)
    actual = torch.ops.aten._add_relu(a.to(device), b.to(device), alpha=2)
    assert actual.device.type == device
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
