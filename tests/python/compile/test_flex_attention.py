"""flex_attention with and without a compiler, against a formula on the CPU."""

import functools
import math

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from torch_ocl.inductor import fallback

from .comparison import same

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without", "ignore:return_lse is deprecated")


def causal(b, h, m, n):
    return m >= n


def window(b, h, m, n):
    return (m >= n) & (m - n < 9)


def reference(q, k, v, score=None, mask=None, scale=None):
    """`score` changes all scores at once; `mask` is where they count. Returns attention, logsumexp, greatest score."""
    repeats = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(repeats, 1) for t in (k, v))
    scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if score is None else score(scores)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    seen = (scores > -math.inf).any(-1, keepdim=True)
    weights = scores.masked_fill(~seen, 0).softmax(-1) * seen
    return weights @ v, scores.logsumexp(-1), scores.amax(-1)


def inputs(q=(2, 4, 37, 16), kv=(2, 4, 37, 16), dtype=torch.float32):
    """Query, key and value, on the CPU in float64 but with numbers that `dtype` holds."""
    return [torch.randn(shape).to(dtype).double().requires_grad_() for shape in (q, kv, kv)]


def grid(rows, columns):
    m, n = torch.arange(rows)[:, None], torch.arange(columns)
    return m, n


def on_device(tensors, dtype=torch.float32):
    return [t.detach().to("ocl", dtype).requires_grad_(t.requires_grad) for t in tensors]


def near(actual, expected, dtype, terms):
    """Within c * eps * sqrt(terms) of values of the order of 1."""
    assert actual.device.type == "ocl"
    bound = 8 * torch.finfo(dtype).eps * math.sqrt(terms)
    torch.testing.assert_close(actual.detach().cpu().double(), expected.detach().double(), rtol=bound, atol=bound)


def compare(call, expected, tensors, dtype=torch.float32, terms=64):
    """Values and gradients of call(*tensors on the device) and expected(*tensors)."""
    here = on_device(tensors, dtype)
    weight = torch.randn(expected(*tensors).shape, dtype=torch.float64).to(dtype)
    out, wanted = call(*here), expected(*tensors)
    near(out, wanted, dtype, terms)
    out.backward(weight.to("ocl"))
    wanted.backward(weight.double())
    for a, e in zip(here, tensors, strict=True):
        near(a.grad, e.grad, dtype, terms * 4)
    assert torch.ocl.fallbacks() == {}


@pytest.fixture(params=["eager", "compiled"])
def attention(request, device):
    return flex_attention if request.param == "eager" else torch.compile(flex_attention)


def test_plain(attention):
    compare(attention, lambda *t: reference(*t)[0], inputs())


def test_score_mod_with_buffers_and_their_gradients(attention):
    slopes, table = torch.randn(4).double().requires_grad_(), torch.randn(37, 37).double().requires_grad_()
    m, n = grid(37, 37)

    def call(q, k, v, slopes, table):
        return attention(q, k, v, score_mod=lambda s, b, h, m, n: s * 2 + slopes[h] * (m - n) / 8 + table[m, n].tanh())

    def expected(q, k, v, slopes, table):
        return reference(q, k, v, lambda s: s * 2 + slopes[:, None, None] * (m - n) / 8 + table.tanh())[0]

    compare(call, expected, [*inputs(), slopes, table], terms=37 * 37)


def test_masks_by_blocks_and_shared_heads(attention):
    q, k, v = inputs((2, 6, 150, 16), (2, 2, 150, 16))
    m, n = grid(150, 150)
    mask = create_block_mask(window, None, None, 150, 150, device="ocl", BLOCK_SIZE=32)
    call = functools.partial(attention, block_mask=mask, enable_gqa=True, scale=0.3)
    compare(call, lambda *t: reference(*t, mask=(m >= n) & (m - n < 9), scale=0.3)[0], [q, k, v])


def test_statistics_and_rows_that_see_nothing(attention):
    tensors = inputs()
    m, n = grid(37, 37)
    some = (m >= n) & (m != 5)
    mask = create_block_mask(lambda b, h, m, n: (m >= n) & (m != 5), None, None, 37, 37, device="ocl")
    out, extra = attention(*on_device(tensors), block_mask=mask, return_aux=AuxRequest(lse=True, max_scores=True))
    for actual, expected in zip((out, extra.lse, extra.max_scores), reference(*tensors, mask=some), strict=True):
        near(actual, expected, torch.float32, 64)

    def both(q, k, v):
        out, lse = attention(q, k, v, block_mask=create, return_lse=True)
        return out + lse.unsqueeze(-1)

    create = create_block_mask(causal, None, None, 37, 37, device="ocl")

    def expected(q, k, v):
        out, lse, _ = reference(q, k, v, mask=m >= n)
        return out + lse.unsqueeze(-1)

    compare(both, expected, tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_types(device, dtype):
    m, n = grid(37, 37)
    mask = create_block_mask(causal, None, None, 37, 37, device="ocl")
    call = functools.partial(torch.compile(flex_attention), block_mask=mask)
    compare(call, lambda *t: reference(*t, mask=m >= n)[0], inputs(dtype=dtype), dtype)


def test_autocast(attention):
    tensors = [t.detach() for t in inputs(dtype=torch.bfloat16)]
    with torch.autocast("ocl", dtype=torch.bfloat16):
        out = attention(*on_device(tensors))
    assert out.dtype is torch.bfloat16
    near(out, reference(*tensors)[0], torch.bfloat16, 16)


def test_blocks_without_a_function(device):
    """Blocks that a mask does not list are not seen; those listed as full are not asked about."""
    count = torch.tensor([[[1, 2]]], dtype=torch.int32)
    listed = torch.tensor([[[[1, 0], [0, 1]]]], dtype=torch.int32)
    full = torch.tensor([[[0, 0]]], dtype=torch.int32)
    masks = BlockMask.from_kv_blocks(count, listed, full, listed.clone(), BLOCK_SIZE=32).to("ocl")
    tensors = inputs((1, 2, 64, 16), (1, 2, 64, 16))
    seen = torch.ones(64, 64, dtype=torch.bool)
    seen[:32, :32] = False
    call = functools.partial(torch.compile(flex_attention), block_mask=masks)
    compare(call, lambda *t: reference(*t, mask=seen)[0], tensors)


def test_memory_order_and_other_sizes_of_value(attention):
    q, k, v = (torch.randn(2, 37, 3, size, dtype=torch.float64, requires_grad=True) for size in (8, 8, 12))

    def call(q, k, v):
        out = attention(*(t.transpose(1, 2) for t in (q, k, v)))
        return out.transpose(1, 2).reshape(2, 37, 36)

    def expected(q, k, v):
        return reference(*(t.transpose(1, 2) for t in (q, k, v)))[0].transpose(1, 2).reshape(2, 37, 36)

    compare(call, expected, [q, k, v])


def test_within_a_network_and_with_other_sizes(device):
    """Sizes that change compile at most once more, and work around the attention is in the same graph."""
    from torch._dynamo.testing import CompileCounterWithBackend

    count = CompileCounterWithBackend("inductor")
    weight = torch.randn(24, 8, dtype=torch.float64, requires_grad=True)

    def network(x, weight, attend):
        q, k, v = (x @ weight.mT).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return attend(q, k, v).transpose(1, 2).flatten(2).relu()

    def here(x, weight):
        return network(x, weight, lambda *t: flex_attention(*t, score_mod=lambda s, b, h, m, n: s - (m - n).abs()))

    def there(x, weight):
        m, n = grid(x.shape[1], x.shape[1])
        return network(x, weight, lambda *t: reference(*t, lambda s: s - (m - n).abs())[0])

    call = torch.compile(here, backend=count, dynamic=True, fullgraph=True)
    for length in (20, 33, 47):
        x = torch.randn(2, length, 8, dtype=torch.float64, requires_grad=True)
        compare(call, there, [x, weight], terms=2 * length * length)
        weight.grad = None
    assert count.frame_count <= 2


def test_what_lies_between_the_products_is_one_kernel(device):
    from torch._inductor import metrics

    metrics.reset()
    q, k, v = (t.detach() for t in on_device(inputs()))
    torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: s + (m - n)))(q, k, v)
    assert metrics.generated_kernel_count <= 2  # the softmax, and the division of the result


def test_bad_input(attention):
    q, k, v = on_device(inputs())
    with pytest.raises(ValueError, match="same number of heads"):
        attention(q, k[:, :2], v[:, :2])
    with pytest.raises(ValueError, match="embedding dimension"):
        attention(q, k[..., :8], v)
    mask = create_block_mask(causal, None, None, 64, 64, device="ocl")
    with pytest.raises(ValueError, match="block_mask"):
        attention(q, k, v, block_mask=mask)


@pytest.mark.parametrize("backend", ["FLASH", "TRITON_DECODE"])
@pytest.mark.parametrize("strict", [True, False])
def test_kernels_that_are_not_there(device, monkeypatch, backend, strict):
    """An error, with and without the rule that what cannot be compiled runs."""
    monkeypatch.setattr(fallback, "strict", strict)
    q = torch.randn(1, 2, 16, 8, device=device)
    compiled = torch.compile(lambda q: flex_attention(q, q, q, kernel_options={"BACKEND": backend}))
    with pytest.raises(RuntimeError, match=f"BACKEND='{backend}'"):
        compiled(q)
    hints = torch.compile(lambda q: flex_attention(q, q, q, kernel_options={"BACKEND": "AUTO", "BLOCK_M": 16}))
    same(hints(q), flex_attention(q.cpu(), q.cpu(), q.cpu()))
