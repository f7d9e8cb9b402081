"""Attention and rotary embeddings."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import types
from ..registry import row


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    if x.dim() == 4:
        return x
    if count is None:
        raise ValueError("3-D inputs need q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], count, x.shape[2] // count).transpose(1, 2)


def _allowed(q: Tensor, keys: Any, offset: Any, is_causal: int, left: int, right: int) -> Tensor | None:
    """Which keys each query may see by its position, [q, keys] or [batch, 1, q, keys]."""
    if not is_causal and left < 0 and right < 0:
        return None
    place = torch.arange(q.shape[2], device=q.device).reshape(-1, 1)
    place = place + (offset.reshape(-1, 1, 1, 1) if isinstance(offset, Tensor) else offset)
    distance = place - torch.arange(keys, device=q.device)
    allowed = torch.ones_like(distance, dtype=torch.bool)
    if is_causal:
        allowed = allowed & (distance >= 0)
    if left >= 0:
        allowed = allowed & (distance <= left)
    if right >= 0:
        allowed = allowed & (distance >= -right)
    return allowed


def _bias(q: Tensor, mask: Tensor | None, allowed: Tensor | None) -> Tensor | None:
    """What is added to the scores: -inf where a key is not allowed, and a mask of numbers."""
    bias = None
    if allowed is not None:
        zero = torch.zeros(allowed.shape, dtype=q.dtype, device=q.device)
        bias = zero.masked_fill(~allowed, -math.inf)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, -math.inf)
        bias = mask if bias is None else bias + mask
    return bias


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a & b


@row("Attention", 23)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> Any:
    """softmax(Q K^T * scale + bias) V with caches, grouped heads, windows and masks; a query without keys gives 0."""
    flat = q.dim() == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    offset: Any = 0
    if past_key is not None and past_value is not None:
        offset = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    elif lengths is not None:
        offset = lengths.reshape(-1) - q.shape[2]
    present = (k, v)
    keys = k.shape[2]
    if mask is not None and isinstance(keys, int) and mask.shape[-1] < keys:
        value = False if mask.dtype == torch.bool else -math.inf
        mask = F.pad(mask, [0, keys - mask.shape[-1]], value=value)
    allowed = _allowed(q, keys, offset, is_causal, left_window_size, right_window_size)
    if lengths is not None:
        valid = torch.arange(keys, device=q.device) < lengths.reshape(-1, 1, 1, 1)
        allowed = _both(allowed, valid)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    plain = softcap == 0 and outputs < 4 and softmax_precision is None and q.dtype == v.dtype
    if plain and allowed is None and mask is None:
        y = F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        return _results(y, flat, present, None, outputs)
    bias = _bias(q, mask, allowed)
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    root = torch.tensor(math.sqrt(scale), dtype=q.dtype).item()
    scores = torch.matmul(q * root, k.transpose(2, 3) * root)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    total = scores if bias is None else scores + bias
    shown = total if qk_matmul_output_mode == 2 else scores
    precise = total if softmax_precision is None else total.to(types.dtype_of(softmax_precision))
    weights = torch.softmax(precise, -1)
    if bias is not None:
        blind = bias.amax(-1, keepdim=True) == -math.inf
        weights = weights.masked_fill(blind, 0)
    weights = weights.to(q.dtype)
    shown = weights if qk_matmul_output_mode == 3 else shown
    return _results(torch.matmul(weights.to(v.dtype), v), flat, present, shown, outputs)


def _results(y: Tensor, flat: bool, present: tuple[Tensor, Tensor], scores: Tensor | None, outputs: int) -> Any:
    if flat:
        y = y.transpose(1, 2).flatten(2)
    return (y, *present, scores)[:outputs] if outputs > 1 else y


@row("RotaryEmbedding", 23)
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of elements turned by an angle that grows with the position."""
    shape = x.shape
    parts = x.transpose(1, 2) if x.dim() == 4 else x.reshape(shape[0], shape[1], num_heads or 1, -1)
    size = rotary_embedding_dim or parts.shape[3]
    if positions is not None:
        cos, sin = F.embedding(positions, cos), F.embedding(positions, sin)
    if cos.shape[-1] != size // 2:
        raise ValueError(f"the cosines have {cos.shape[-1]} columns, {size // 2} are needed")
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    turned = parts[..., :size]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        new = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        new = torch.cat([cos * a - sin * b, sin * a + cos * b], -1)
    result = torch.cat([new, parts[..., size:]], -1) if size != parts.shape[3] else new
    return result.transpose(1, 2) if x.dim() == 4 else result.reshape(shape)
