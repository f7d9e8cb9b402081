"""Random operators that activation checkpointing computes twice, compiled: the same numbers both times."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

FUNCTIONS = {
    "dropout": lambda x: F.dropout(x.relu(), 0.5).sin(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], dropout_p=0.3),
    "multinomial": lambda x: x * torch.multinomial(x.detach().abs() + 1, 16),
}


@pytest.mark.feature("Inductor")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_eager_checkpoints(device, name):
    def step(x):
        return checkpoint(FUNCTIONS[name], x, use_reentrant=False).square().sum()

    def gradient(function, x):
        torch.manual_seed(3)
        x = x.clone().requires_grad_()
        loss = function(x)
        loss.backward()
        return loss.detach(), x.grad, torch.rand(3, device=device)  # the generator is where it should be, too

    x = torch.randn(8, 16, device=device)
    with torch._inductor.config.patch(fallback_random=True):
        actual = gradient(torch.compile(step), x)
    assert torch.ocl.fallbacks() == {}
    for a, e in zip(actual, gradient(step, x), strict=True):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a, e, rtol=2e-5, atol=2e-5)


@pytest.mark.feature("Inductor")
def test_recomputed_numbers_are_those_of_the_forward_pass(device):
    """With Inductor's own random numbers too: the gradient of x * mask is the mask."""

    def step(x):
        return checkpoint(lambda x: x * torch.multinomial(torch.ones_like(x), 16), x, use_reentrant=False)

    x = torch.ones(8, 16, device=device, requires_grad=True)
    y = torch.compile(step)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach(), rtol=0, atol=0)
    assert torch.ocl.fallbacks() == {}
