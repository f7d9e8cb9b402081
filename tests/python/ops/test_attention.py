"""F.scaled_dot_product_attention against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.tolerances import assert_close


def compare(device, q, k, v, rtol=1e-4, atol=2e-5, mask=None, **options):
    results = []
    for place in ("cpu", device):
        tensors = [t.detach().to(place).requires_grad_() for t in (q, k, v)]
        placed = mask.to(place) if mask is not None else None
        out = F.scaled_dot_product_attention(*tensors, attn_mask=placed, **options)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(place, out.dtype)).sum().backward()
        results.append([out, *(t.grad for t in tensors)])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=rtol, atol=atol)


def qkv(b=2, h=3, length=67, keys=71, width=40, value_width=40, key_heads=None, dtype=torch.float32):
    g = key_heads or h
    return (
        torch.randn(b, h, length, width, dtype=dtype),
        torch.randn(b, g, keys, width, dtype=dtype),
        torch.randn(b, g, keys, value_width, dtype=dtype),
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_plain(device, causal, scale):
    compare(device, *qkv(), is_causal=causal, scale=scale)


def test_other_value_width(device):
    compare(device, *qkv(width=24, value_width=88))


def test_grouped_queries(device):
    compare(device, *qkv(h=6, key_heads=2), enable_gqa=True)


@pytest.mark.parametrize("shape", [(67, 71), (2, 1, 67, 71), (1, 3, 1, 71), (67, 1)])
def test_additive_mask(device, shape):
    compare(device, *qkv(), mask=torch.randn(shape))


def test_boolean_mask_with_empty_rows(device):
    mask = torch.rand(2, 1, 67, 71) > 0.5
    mask[:, :, 5] = False
    compare(device, *qkv(), mask=mask)


def test_transposed_operands(device):
    tensors = [torch.randn(2, 65, 3, 32).transpose(1, 2) for _ in range(3)]
    compare(device, *tensors, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(device, dtype):
    """Values and gradients against float64; probabilities may have been rounded to the half type on the way."""
    tensors, results = qkv(dtype=dtype), []
    for place, to in (("cpu", torch.float64), (device, dtype)):
        leaves = [t.detach().to(place, to).requires_grad_() for t in tensors]
        out = F.scaled_dot_product_attention(*leaves, is_causal=True)
        weights = torch.linspace(-1, 1, out.numel()).to(dtype).reshape(out.shape)
        out.backward(weights.to(place, to))
        results.append([out, *(t.grad for t in leaves)])
    for exact, actual in zip(*results, strict=True):
        assert_close(actual, exact, steps=2)


def test_dropout(device):
    q, k, v = (t.to(device) for t in qkv(length=200, keys=200))
    v = torch.ones_like(v)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
    assert abs(out.mean().item() - 1) < 0.05 and out.std().item() > 0.01
    torch.manual_seed(3)
    a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
    torch.manual_seed(3)
    assert torch.equal(a.cpu(), F.scaled_dot_product_attention(q, k, v, dropout_p=0.4).cpu())


def test_dropout_gradient_matches_its_forward(device):
    """With fixed random numbers the output is linear in v: out . g == v . dv."""
    q, k, v = (t.to(device).requires_grad_() for t in qkv())
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    g = torch.randn(out.shape).to(device)
    out.backward(g)
    left, right = (out.detach().cpu() * g.cpu()).sum(), (v.detach().cpu() * v.grad.cpu()).sum()
    torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)


def test_mask_with_gradient_takes_the_composition(device):
    q, k, v = (t.to(device) for t in qkv())
    mask = torch.randn(67, 71).to(device).requires_grad_()
    F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
    assert mask.grad.shape == mask.shape


def test_composition_on_request(device):
    q, k, v = qkv()
    with sdpa_kernel(SDPBackend.MATH):
        compare(device, q, k, v)


def test_transformer_layer(device):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(48, 4, 64, dropout=0.0, batch_first=True)
    mirror = nn.TransformerEncoderLayer(48, 4, 64, dropout=0.0, batch_first=True)
    mirror.load_state_dict(layer.state_dict())
    mirror.to(device)
    x = torch.randn(3, 21, 48)
    for m, place in ((layer, "cpu"), (mirror, device)):
        m(x.to(place)).square().mean().backward()
    for p, q in zip(layer.parameters(), mirror.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5)
