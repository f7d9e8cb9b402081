"""F.scaled_dot_product_attention against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.tolerances import assert_close
from conftest import without_fallback


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


def window(length, keys, width):
    """True for the last `width` keys."""
    seen = torch.zeros(length, keys, dtype=torch.bool)
    seen[:, -width:] = True
    return seen


FEW_QUERIES = [  # batch, heads, key heads, queries, keys, width, value width
    (1, 32, 4, 1, 1500, 64, 64),
    (2, 9, 3, 1, 130, 64, 64),
    (1, 4, 4, 1, 1, 64, 64),
    (1, 32, 1, 1, 300, 128, 128),
    (2, 8, 2, 3, 257, 80, 96),
    (1, 71, 1, 1, 100, 64, 64),
    (1, 4, 2, 8, 700, 256, 256),
    (1, 2, 2, 2, 70, 17, 33),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "window", "causal"])
@pytest.mark.parametrize(("b", "h", "g", "length", "keys", "width", "value_width"), FEW_QUERIES)
def test_few_queries(device, dtype, mask, b, h, g, length, keys, width, value_width):
    tensors = qkv(b, h, length, keys, width, value_width, g, dtype)
    bias = {
        "boolean": torch.rand(b, 1, length, keys) > 0.3,
        "additive": torch.randn(length, keys).to(dtype),
        "window": window(length, keys, 100),
    }.get(mask)
    exact_bias = bias.double() if mask == "additive" else bias
    options = {"is_causal": mask == "causal", "enable_gqa": True}
    exact = F.scaled_dot_product_attention(*(t.double() for t in tensors), exact_bias, **options)
    with without_fallback():
        out = F.scaled_dot_product_attention(
            *(t.to(device) for t in tensors), bias if bias is None else bias.to(device), **options
        )
    assert out.dtype == dtype and out.device.type == "ocl"
    assert_close(out, exact, steps=2, terms=keys)


@pytest.mark.parametrize("keys", [64, 1000])
def test_a_query_that_sees_nothing_gives_zeros(device, keys):
    q, k, v = qkv(1, 4, 2, keys, 64, 64, 2)
    mask = torch.ones(2, keys, dtype=torch.bool)
    mask[1] = False
    out = F.scaled_dot_product_attention(
        q.to(device), k.to(device), v.to(device), mask.to(device), enable_gqa=True
    ).cpu()
    assert bool((out[:, :, 1] == 0).all()) and bool(out[:, :, 0].isfinite().all())


def test_few_queries_give_gradients(device):
    compare(device, *qkv(2, 6, 1, 600, 40, 40, 2), enable_gqa=True)


def test_few_queries_of_a_cache_that_is_not_full(device):
    """A static cache: a view of its first keys, and a mask over all of them."""
    cache = torch.randn(2, 1, 3, 512, 64)
    q = torch.randn(1, 9, 1, 64)
    mask = torch.arange(512) < 77
    exact = F.scaled_dot_product_attention(q, cache[0][:, :, :77], cache[1][:, :, :77], enable_gqa=True)
    moved, query = cache.to(device), q.to(device)
    part = F.scaled_dot_product_attention(query, moved[0][:, :, :77], moved[1][:, :, :77], enable_gqa=True)
    whole = F.scaled_dot_product_attention(
        query, moved[0], moved[1], mask.to(device).expand(1, 1, 1, 512), enable_gqa=True
    )
    torch.testing.assert_close(part.cpu(), exact, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(whole.cpu(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_in_a_key_reaches_the_queries_of_its_head(device, dtype):
    q, k, v = qkv(1, 4, 1, 600, 64, 64, 2, dtype)
    k[0, 1, 500, 3] = float("nan")
    out = F.scaled_dot_product_attention(q.to(device), k.to(device), v.to(device), enable_gqa=True).cpu()
    assert bool(out[:, 2:].isnan().all()) and bool(out[:, :2].isfinite().all())
