"""flex_attention in compiled graphs: products of the library, and generated kernels for what lies between them.

PyTorch keeps `flex_attention` as one node with the user's functions as subgraphs, and has templates for devices that
it knows. Here the node is replaced by its formula before Inductor sees the graph: scores are the library's product;
score_mod, the mask and the softmax become generated kernels.

Shapes: query (B, H, L, E), key (Bk, K, S, E), value (Bk, K, S, V) with H a multiple of K, and Bk = B or 1.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

LN2 = math.log(2)
# Blocks of a mask that stands for none.
NO_BLOCKS = 1 << 30


class OptionError(RuntimeError):
    """An option that asks for what is not there. Passes to the user, as PyTorch's own errors about options do."""


def _check_options(options: Any) -> None:
    """Sizes of blocks and the like are hints, which other kernels have no use for. A kernel by name is not."""
    backend = dict(options or {}).get("BACKEND", "AUTO")
    if backend == "FLASH":
        raise OptionError("BACKEND='FLASH' but flash attention cannot be used: it needs a CUDA device, not ocl")
    if backend == "TRITON_DECODE":
        raise OptionError(
            "BACKEND='TRITON_DECODE' was specified but flex_decoding cannot be used for this input. It needs a CUDA "
            "device, not ocl"
        )


def _function_of_index(function: Callable[..., Any], prefix: Sequence[Any], suffix: Sequence[Any], **more: Any) -> Any:
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    return _vmap_for_bhqkv(function, prefix=tuple(prefix), suffix=tuple(suffix), **more)


def _like(value: Tensor, model: Tensor) -> Tensor:
    """The same numbers with the dimensions in memory in the order of `model`'s, the last one innermost."""
    order = sorted(range(3), key=model.stride, reverse=True)
    if order == [0, 1, 2]:
        return value.contiguous()
    back = [order.index(d) for d in range(3)]
    return value.permute(*order, 3).contiguous().permute(*back, 3)


class _Attention:
    """One call: its scores and mask."""

    def __init__(self, query: Tensor, key: Tensor, score_mod: Any, block_mask: Sequence[Any], scale: float,
                 score_buffers: Sequence[Any], mask_buffers: Sequence[Any]) -> None:  # fmt: skip
        self.query, self.scale = query, scale
        self.batch, self.heads, self.rows, _ = query.shape
        _, self.groups, self.columns, _ = key.shape
        self.batch_of_keys = key.shape[0]
        self.dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
        self.score_mod, self.score_buffers = score_mod, score_buffers
        self.block_mask, self.mask_buffers = block_mask, mask_buffers
        self.key = self.of_keys(key)
        self.scores = self.by_head(self.by_group(query).to(self.dtype) @ self.key.to(self.dtype).mT) * scale
        self.index = [torch.arange(n, dtype=torch.int32, device=query.device) for n in self.scores.shape]
        self.mask = self._mask()

    def by_group(self, value: Tensor) -> Tensor:
        """(B, H, L, N) as (B, K, H/K * L, N): the heads that share keys and values are rows of one product."""
        return value if self.heads == self.groups else value.reshape(self.batch, self.groups, -1, value.shape[-1])

    def by_head(self, value: Tensor) -> Tensor:
        return value.view(self.batch, self.heads, self.rows, value.shape[-1])

    def of_keys(self, value: Tensor) -> Tensor:
        return value if self.batch_of_keys == self.batch else value.expand(self.batch, *value.shape[1:])

    def sum_of_batch(self, gradient: Tensor) -> Tensor:
        return gradient if self.batch_of_keys == self.batch else gradient.sum(0, keepdim=True)

    def _mask(self) -> Tensor:
        wanted = _function_of_index(self.block_mask[-1], (), [None] * len(self.mask_buffers))
        mask: Tensor = wanted(*self.index, *self.mask_buffers).expand(self.scores.shape)
        q_block, kv_block = self.block_mask[-3:-1]
        if q_block >= NO_BLOCKS and kv_block >= NO_BLOCKS:
            return mask
        count, listed, full_count, full_listed = self.block_mask[2:6]
        some = self._blocks(count, listed, q_block, kv_block)
        if full_count is None:
            return mask & some
        return (mask & some) | self._blocks(full_count, full_listed, q_block, kv_block)

    def _blocks(self, count: Tensor, listed: Tensor, q_block: int, kv_block: int) -> Tensor:
        """Whether the block that a score lies in is listed. count: (B or 1, H or 1, rows of blocks); listed has one
        more dimension."""
        most, columns = listed.shape[-1], -(-self.columns // kv_block)
        counts = torch.arange(most, device=listed.device) < count.unsqueeze(-1)
        place = torch.where(counts, listed, columns).long()
        marks = torch.zeros(*count.shape, columns + 1, dtype=torch.bool, device=listed.device)
        marks = marks.scatter(-1, place, True)
        # one number for each column of scores, so that kernels read whole vectors of it
        along = marks[..., :columns].unsqueeze(-1).expand(*marks.shape[:-1], columns, kv_block)
        along = along.reshape(*marks.shape[:-1], -1)[..., : self.columns]
        b, h, row, _ = self.index
        b, h = (i if n != 1 else torch.zeros_like(i) for i, n in zip((b, h), marks.shape[:2], strict=True))
        column = torch.arange(self.columns, device=listed.device)
        return along[b[:, None, None, None], h[:, None, None], (row // q_block)[:, None], column]

    def modified(self) -> Tensor:
        """The scores that the softmax sees."""
        changed = _function_of_index(self.score_mod, (0,), [None] * len(self.score_buffers))
        scores = changed(self.scores, *self.index, *self.score_buffers).to(self.dtype)
        return torch.where(self.mask, scores, -math.inf)


def forward(query: Tensor, key: Tensor, value: Tensor, score_mod: Any, block_mask: Any, scale: float, options: Any,
            score_buffers: Sequence[Any] = (), mask_buffers: Sequence[Any] = ()) -> tuple[Any, ...]:  # fmt: skip
    """Returns the attention (B, H, L, V) in query's memory order, and logsumexp and greatest score of each row
    (B, H, L) in powers of 2, float32 as PyTorch's rule for the node says. A row of which nothing is seen is 0, with
    -infinity twice."""
    _check_options(options)
    call = _Attention(query, key, score_mod, block_mask, scale, score_buffers, mask_buffers)
    scores = call.modified()
    most = scores.amax(-1, keepdim=True)
    raised = (scores - torch.where(most == -math.inf, 0.0, most)).exp()
    total = raised.sum(-1, keepdim=True)
    share = 1 / torch.where(total == 0, 1.0, total)
    value = call.of_keys(value).to(query.dtype)
    if query.dtype is torch.float16:  # sums of values, not divided yet, may be larger than it holds
        out = call.by_head(call.by_group((raised * share).to(query.dtype)) @ value)
    else:
        out = (call.by_head(call.by_group(raised.to(query.dtype)) @ value) * share).to(query.dtype)
    lse = torch.where(total == 0, -math.inf, total.log() + most).squeeze(-1)
    return _like(out, query), (lse / LN2).float(), (most.squeeze(-1) / LN2).float()


def backward(query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, grad_out: Any, grad_lse: Any,
             score_mod: Any, joint: Any, block_mask: Any, scale: float, options: Any,
             score_buffers: Sequence[Any] = (), mask_buffers: Sequence[Any] = ()) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of query, key, value, and of each captured buffer of score_mod (None where none is wanted)."""
    _check_options(options)
    call = _Attention(query, key, score_mod, block_mask, scale, score_buffers, mask_buffers)
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out
    scores = call.modified()
    # what was kept is too coarse for float64
    lse = scores.logsumexp(-1, keepdim=True) if call.dtype is torch.float64 else (lse * LN2).unsqueeze(-1)
    weights = torch.where(lse == -math.inf, 0.0, (scores - lse).exp())
    values = call.of_keys(value).to(call.dtype)
    rows_of_out = call.by_group(grad_out)
    grad_value = call.by_group(weights.to(query.dtype)).mT @ rows_of_out
    grad_weights = call.by_head(rows_of_out.to(call.dtype) @ values.mT)
    drop = (out.to(call.dtype) * grad_out.to(call.dtype)).sum(-1, keepdim=True)
    if grad_lse is not None:
        drop = drop - (grad_lse / LN2).unsqueeze(-1)
    grad_scores, buffers = _through_score_mod(call, joint, weights * (grad_weights - drop))
    grad_scores = call.by_group(torch.where(call.mask, grad_scores * scale, 0.0).to(query.dtype))
    grad_query = call.by_head(grad_scores @ call.key.to(query.dtype))
    grad_key = grad_scores.mT @ call.by_group(query)
    grads = (grad_query, call.sum_of_batch(grad_key), call.sum_of_batch(grad_value))
    of_inputs = (_like(g.to(t.dtype), t) for g, t in zip(grads, (query, key, value), strict=True))
    return *of_inputs, buffers


def _through_score_mod(call: _Attention, joint: Any, gradient: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
    """The gradient of what score_mod returned, as gradients of the scores and of its buffers."""
    many = len(call.score_buffers)
    out_dims = [0, None, None, None, None] + [None] * many
    function = _function_of_index(joint, (0,), [0, *[None] * many], out_dims=out_dims)
    scores, _, _, _, _, *buffers = function(call.scores, *call.index, gradient, *call.score_buffers)
    wanted = (
        None if g is None or not isinstance(t, Tensor) else g.to(t.dtype)
        for g, t in zip(buffers, call.score_buffers, strict=True)
    )  # fmt: skip
    return scores, tuple(wanted)


def _zeros_and_scatter(shape: Sequence[Any], indices: Sequence[Tensor], values: Tensor) -> Tensor:
    """What the gradient of `buffer[index]` in a score_mod is written with."""
    return torch.zeros(shape, dtype=values.dtype, device=values.device).index_put(list(indices), values, True)


def _table() -> Any:
    from torch._inductor.decomposition import select_decomp_table

    return {**select_decomp_table(), torch.ops.flex_lib.zeros_and_scatter.default: _zeros_and_scatter}


def replace(graph_module: torch.fx.GraphModule, fake_mode: Any) -> bool:
    """Replaces the flex_attention nodes of a graph for `ocl`, those of its subgraphs too. Returns whether there were
    any. The user's errors come out as they do in eager mode."""
    from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
    from torch._inductor.pattern_matcher import (
        CallFunctionVarArgs,
        PatternMatcherPass,
        fwd_only,
        register_graph_pattern,
    )
    from torch._inductor.virtualized import V
    from torch.utils import _pytree

    formulas = {flex_attention: forward, flex_attention_backward: backward}
    replaced = False

    def one(owner: torch.fx.GraphModule, match: Any, formula: Any, arguments: Any) -> None:
        leaves, spec = _pytree.tree_flatten(arguments)
        modules = {
            i: getattr(owner, str(leaf.target))
            for i, leaf in enumerate(leaves)
            if isinstance(leaf, torch.fx.Node) and leaf.op == "get_attr" and "val" not in leaf.meta
        }
        varying = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node) and i not in modules]

        def call(*values: Any) -> Any:
            filled = [modules.get(i, leaf) for i, leaf in enumerate(leaves)]
            for i, value in zip(varying, values, strict=True):
                filled[i] = value
            return formula(*_pytree.tree_unflatten(filled, spec))

        def trace(function: Any, values: Any) -> torch.fx.GraphModule:
            traced: torch.fx.GraphModule = fwd_only(function, values, run_functional_passes=False, get_decomp_fn=_table)
            return traced

        match.replace_by_example(call, [leaves[i] for i in varying], trace_fn=trace)

    def handle(owner: torch.fx.GraphModule) -> None:
        nonlocal replaced
        here = PatternMatcherPass()
        for operator, formula in formulas.items():

            def of_ocl(match: Any) -> bool:
                return bool(match.nodes[0].args[0].meta["val"].device.type == "ocl")

            def handler(match: Any, *arguments: Any, formula: Any = formula) -> None:
                one(owner, match, formula, arguments)

            register_graph_pattern(CallFunctionVarArgs(operator), pass_dict=here, extra_check=of_ocl)(handler)
        if here.apply(owner):
            replaced = True
            owner.graph.eliminate_dead_code()
            owner.recompile()

    with V.set_fake_mode(fake_mode):
        for owner in list(graph_module.modules()):
            if isinstance(owner, torch.fx.GraphModule):
                handle(owner)
    return replaced
