"""Attention on DTensors: F.scaled_dot_product_attention by the fused kernels, whose operator PyTorch has no rules for.

Its outputs: out, logsumexp, two that are none, two numbers, seed and offset of dropout, and one that is none. Tensors
are [batch, heads, rows, columns], logsumexp has no columns.
"""

from typing import Any

import torch

aten = torch.ops.aten
_FORWARD = aten._scaled_dot_product_fused_attention_overrideable
_BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward
_ROWS = 2  # the dimension that context parallelism shards
# Positions of the arguments of both operators that have the shards of the query, and of the mask.
_FORWARD_TENSORS, _FORWARD_MASK = (0, 1, 2), 3
_BACKWARD_TENSORS, _BACKWARD_MASK = (0, 1, 2, 3, 6, 7), 4


def register(module: Any) -> None:
    """Gives DTensor its sharding rules; `module` is torch.distributed.tensor._ops._matrix_ops."""
    from torch.distributed.tensor import _op_schema
    from torch.distributed.tensor._ops import utils

    if not (hasattr(module, "register_op_strategy") and hasattr(utils, "expand_to_full_mesh_op_strategy")):
        return  # PyTorch's own names, which its versions change
    for operator, first, rule in ((_FORWARD, 4, _forward_rule), (_BACKWARD, 5, _backward_rule)):
        info = _op_schema.RuntimeSchemaInfo(first)  # the position of the first argument that is no tensor
        module.register_op_strategy(operator.default, schema_info=info)(rule)


def _placements(arguments: Any, tensors: tuple[int, ...], mask: int, dim: int | None) -> list[Any]:
    """Of the arguments that are tensors: shards of `dim`, copies for None. A mask that is broadcast in `dim` has none,
    nor has anything else."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor._op_schema import OpStrategy

    found: list[Any] = []
    for position, argument in enumerate(arguments):
        if not isinstance(argument, OpStrategy):
            continue
        apart = dim is not None and position in tensors
        if dim is not None and position == mask:
            query = arguments[tensors[-3] if mask == _FORWARD_MASK else 1]
            behind = dim + len(argument.shape) - 4  # masks may lack dimensions in front
            apart, shard = behind >= 0 and argument.shape[behind] == query.shape[dim], behind
        else:
            shard = dim or 0
        found.append(Shard(shard) if apart else Replicate())
    return found


def _rule(schema: Any, tensors: tuple[int, ...], mask: int, outputs: Any) -> Any:
    """Copies, shards of the batch, and shards of the heads where groups of them stay together."""
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy

    arguments, mesh = schema.args_schema, schema.get_mesh_from_args(validate=False)
    query, key = (arguments[position] for position in ((0, 1) if mask == _FORWARD_MASK else (1, 2)))
    dims: list[int | None] = [None, 0]
    if query.shape[1] == key.shape[1] or key.shape[1] % mesh.size() == 0:
        dims.append(1)
    rules = [outputs(dim) + _placements(arguments, tensors, mask, dim) for dim in dims]
    return expand_to_full_mesh_op_strategy(mesh, schema, rules, input_index=len(outputs(None)))


def _forward_rule(schema: Any) -> Any:
    from torch.distributed.tensor import Replicate, Shard

    def outputs(dim: int | None) -> list[Any]:
        parts = [Replicate() if dim is None else Shard(dim)] * 2
        return [*parts, None, None, None, None, Replicate(), Replicate(), None]

    return _rule(schema, _FORWARD_TENSORS, _FORWARD_MASK, outputs)


def _backward_rule(schema: Any) -> Any:
    from torch.distributed.tensor import Replicate, Shard

    def outputs(dim: int | None) -> list[Any]:
        return [*[Replicate() if dim is None else Shard(dim)] * 3, None]  # the mask has no gradient

    return _rule(schema, _BACKWARD_TENSORS, _BACKWARD_MASK, outputs)


def add_ring(module: Any) -> None:
    """Gives context_parallel() its ring of this operator; `module` is that of PyTorch's own rings."""
    names = ("custom_ops", "_templated_ring_attention", "_templated_ring_attention_backward")
    if not all(hasattr(module, name) for name in names):
        return

    def forward(query: Any, key: Any, value: Any, mask: Any = None, dropout: float = 0.0, causal: bool = False,
                _: bool = False, *, scale: float | None = None) -> Any:  # fmt: skip
        _check(mask, query, key, value)
        q, k, v = (tensor.to_local() for tensor in (query, key, value))
        options = {"attn_bias": None, "dropout_p": dropout, "return_debug_mask": False, "scale": scale}
        group = query.device_mesh.get_group()
        out, logsumexp, *rest = module._templated_ring_attention(group, _ROWS, _FORWARD, q, k, v, causal, **options)
        return (*_like(query, out, logsumexp), *rest)

    def backward(grad_out: Any, query: Any, key: Any, value: Any, mask: Any, _: Any, out: Any, logsumexp: Any,
                 cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int, dropout: float, causal: bool, seed: Any,
                 offset: Any, *, scale: float | None = None) -> Any:  # fmt: skip
        _check(mask, grad_out, query, key, value)
        tensors = [tensor.to_local() for tensor in (query, key, value, out, logsumexp)]
        options = dict(cum_seq_q=cum_seq_q, cum_seq_k=cum_seq_k, max_q=max_q, max_k=max_k, dropout_p=dropout)
        options |= dict(philox_seed=seed, philox_offset=offset, scale=scale)
        options |= dict(attn_bias=None, grad_input_mask=[True, True, True, False])
        found = module._templated_ring_attention_backward(
            query.device_mesh.get_group(), _ROWS, _BACKWARD.default, grad_out.to_local(), "grad_out", *tensors, causal,
            **options,
        )  # fmt: skip
        return (*_like(query, *found[:3]), None)

    module.custom_ops[_FORWARD.default] = lambda _, args, kwargs: forward(*args, **kwargs)
    module.custom_ops[_BACKWARD.default] = lambda _, args, kwargs: backward(*args, **kwargs)


def _check(mask: Any, *tensors: Any) -> None:
    """NotImplementedError for what rings do not take."""
    from torch.distributed.tensor import Shard

    if mask is not None:
        raise NotImplementedError("attn_bias is not supported yet")
    for tensor in tensors:
        if tuple(tensor.placements) != (Shard(_ROWS),):
            raise NotImplementedError(f"context_parallel: attention on {tensor.placements}, not on shards of its rows")


def _like(query: Any, *tensors: Any) -> list[Any]:
    """DTensors with the shards of the query."""
    from torch.distributed.tensor import DTensor

    return [DTensor.from_local(tensor, query.device_mesh, query.placements, run_check=False) for tensor in tensors]
