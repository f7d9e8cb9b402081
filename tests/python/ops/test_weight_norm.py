"""Weight normalization, by the parametrization and by its operator."""

import pytest
import torch

from layer_checks import check


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [0, 2])
def test_operator(dim, dtype, device):
    v = torch.randn(5, 4, 3)
    g = torch.rand([size if d == dim else 1 for d, size in enumerate(v.shape)]) + 0.5
    check(lambda v, g: torch._weight_norm(v, g, dim), v, g, dtype=dtype)


def test_parametrization(device, no_fallback):
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 4))
    x = torch.randn(3, 6)
    layer(x).square().sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    layer.zero_grad()
    layer.to(device)(x.to(device)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad.cpu(), expected[name], rtol=1e-4, atol=1e-5)
