"""Attention of nested tensors of jagged layout.

PyTorch chooses among CUDA's kernels here, and for other devices has one way left: a matrix product for each sequence
and head, without a causal form and only for inputs that lie in one piece. On `ocl` the sequences are padded to the
longest one and go through the ordinary attention. Sequences begin at position 0, so that padding comes last.
"""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch.nested._internal import ops
from torch.nested._internal.nested_tensor import NestedTensor, nested_from_padded


def _is_ours(query: Any, key: Any, value: Any, mask: Any) -> bool:
    if mask is not None or not all(isinstance(x, NestedTensor) for x in (query, key, value)):
        return False
    return all(
        x.device.type == "ocl"
        and x.dim() == 4
        and x._ragged_idx == 2
        and x.lengths() is None
        and x.dtype == query.dtype
        and x.shape[0] == query.shape[0]
        for x in (query, key, value)
    )


def _padded(nested: Any) -> Any:
    """[batch, heads, sequence, size], padded with zeros to the longest sequence."""
    nested._max_seqlen  # noqa: B018  fills the cache without which all rows of the batch count as one sequence
    return nested.transpose(1, 2).to_padded_tensor(0.0).transpose(1, 2)


def _mask(key: Any, length: int, causal: bool, queries: int) -> Any:
    """Which keys each query sees, [batch, 1, 1 or queries, length]."""
    lengths = key.offsets().diff()
    positions = torch.arange(length, device=lengths.device)
    mask = (positions < lengths[:, None])[:, None, None, :]
    if causal:
        mask = mask & (positions <= torch.arange(queries, device=lengths.device)[:, None])
    return mask


def _attention(
    query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: float | None, enable_gqa: bool
) -> Any:
    q, k, v = _padded(query), _padded(key), _padded(value)
    # In causal attention of sequences of equal length no query of a sequence sees the padding behind it.
    alone = is_causal and query.shape[2] == key.shape[2]
    out = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None if alone else _mask(key, k.shape[2], is_causal, q.shape[2]),
        dropout_p=dropout_p,
        is_causal=alone,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    rows = query.transpose(1, 2)
    return nested_from_padded(
        out.transpose(1, 2),
        query.offsets(),
        min_seqlen=query._maybe_min_seqlen,
        max_seqlen=query._maybe_max_seqlen,
        sum_S=rows.values().shape[0],
    ).transpose(1, 2)


def apply() -> None:
    """Puts the above in front of PyTorch's own choice of a kernel."""
    original = ops.jagged_scaled_dot_product_attention  # type: ignore[attr-defined]

    @functools.wraps(original)
    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        **rest: Any,
    ) -> Any:
        if rest or not _is_ours(query, key, value, attn_mask):
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, **rest)
        return _attention(query, key, value, dropout_p, is_causal, scale, enable_gqa)

    ops.jagged_scaled_dot_product_attention = attention  # type: ignore[attr-defined]
