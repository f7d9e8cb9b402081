"""Normalization."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import types
from ..registry import row


def _channels(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape(-1, *(1,) * (x.dim() - 2))


@row("BatchNormalization")
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    outputs: int = 1,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with the batch's own statistics in training mode."""
    if not spatial:
        return (x - mean) / torch.sqrt(variance + epsilon) * scale + bias
    if not training_mode:
        if x.dtype == scale.dtype == mean.dtype and x.dim() > 1:
            result = F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
        else:
            factor = scale / torch.sqrt(variance + epsilon)
            result = (x * _channels(factor, x) + _channels(bias - mean * factor, x)).to(x.dtype)
        return (result, mean, variance, mean, variance)[:outputs] if outputs > 1 else result
    axes = [0, *range(2, x.dim())]
    own_mean, own_variance = torch.mean(x, axes), torch.var(x, axes, correction=0)
    factor = scale / torch.sqrt(own_variance + epsilon)
    result = (x - _channels(own_mean, x)) * _channels(factor, x) + _channels(bias, x)
    if outputs == 1:
        return result
    running = (mean * momentum + own_mean * (1 - momentum), variance * momentum + own_variance * (1 - momentum))
    return (result, *running, own_mean, own_variance)[:outputs]


@row("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each batch normalised by itself."""
    axes = list(range(2, x.dim()))
    mean = torch.mean(x, axes, True)
    variance = torch.var(x, axes, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + epsilon) * _channels(scale, x) + _channels(bias, x)


@row("GroupNormalization", 21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Groups of channels normalised together; one scale for each channel."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return F.group_norm(x.float(), num_groups, scale.float(), bias.float(), epsilon).to(x.dtype)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@row("GroupNormalization", 18)
def group_norm_18(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """GroupNormalization with one scale for each group."""
    count = x.shape[1] // num_groups
    return group_norm(
        x, scale.repeat_interleave(count), bias.repeat_interleave(count), num_groups=num_groups, epsilon=epsilon
    )


@row("LayerNormalization", 17)
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Any:
    """The axes from `axis` on normalised together; also their mean and inverse standard deviation."""
    axis = axis % x.dim() if x.dim() else 0
    shape = list(x.shape[axis:])
    if outputs == 1 and list(scale.shape) == shape and (bias is None or list(bias.shape) == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    wide = x.to(types.dtype_of(stash_type)) if stash_type else x
    axes = list(range(axis, x.dim()))
    mean = torch.mean(wide, axes, True)
    inverse = torch.rsqrt(torch.mean((wide - mean) ** 2, axes, True) + epsilon)
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    result = result if bias is None else result + bias
    return (result, mean, inverse)[:outputs] if outputs > 1 else result


@row("RMSNormalization", 23)
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    """x over its root mean square along the axes from `axis` on."""
    axis = axis % x.dim() if x.dim() else 0
    wide = x.to(types.dtype_of(stash_type)) if stash_type else x
    inverse = torch.rsqrt(torch.mean(wide * wide, list(range(axis, x.dim())), True) + epsilon)
    return (wide * inverse).to(x.dtype) * scale


@row("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x over its norm along the axis; 0 where that is 0."""
    norm = torch.sum(torch.abs(x), axis, True) if p == 1 else torch.sqrt(torch.sum(x * x, axis, True))
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@row("LRN")
def local_response_norm(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x over a power of the mean square of the channels around."""
    before, after = (size - 1) // 2, size // 2
    planes = (x * x).unsqueeze(1)
    padded = F.pad(planes.flatten(3) if x.dim() > 2 else planes.unsqueeze(-1), [0, 0, before, after])
    sums = F.avg_pool2d(padded, (size, 1), 1).squeeze(1).reshape(x.shape)
    return x / (bias + alpha * sums) ** beta


@row("MeanVarianceNormalization")
def mean_variance_norm(
    x: Tensor, *, axes: Any = (0, 2, 3), across_channels: int = 0, normalize_variance: int = 1
) -> Tensor:
    """(x - mean) / (standard deviation + 1e-9)."""
    axes = [0, 1, 2, 3] if across_channels else list(axes)
    centred = x - torch.mean(x, axes, True)
    if not normalize_variance:
        return centred
    return centred / (torch.sqrt(torch.mean(centred * centred, axes, True)) + 1e-9)


@row("Dropout", 12)
def dropout(
    x: Tensor, ratio: Tensor | None = None, training_mode: Tensor | None = None, *, seed: int = 0, outputs: int = 1
) -> Any:
    """x with elements dropped in training mode, and which are kept."""
    mask = torch.ones_like(x, dtype=torch.bool)
    if training_mode is not None and bool(training_mode):
        share = 0.5 if ratio is None else float(ratio)
        if share > 0:
            mask = torch.rand(x.shape, dtype=torch.float32, device=x.device) >= share
            x = torch.where(mask, x / (1 - share), torch.zeros_like(x)) if share < 1 else torch.zeros_like(x)
    return (x, mask) if outputs > 1 else x


@row("Dropout", 1)
def dropout_by_attribute(x: Tensor, *, ratio: float = 0.5, outputs: int = 1) -> Any:
    """Dropout before opset 12, where a net for evaluation keeps everything."""
    return (x, torch.ones_like(x, dtype=torch.bool)) if outputs > 1 else x
