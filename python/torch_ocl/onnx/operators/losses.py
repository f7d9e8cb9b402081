"""Losses."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row


def _nll(log: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int | None) -> Tensor:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction is '{reduction}'")
    n, c = log.shape[:2]
    shape = list(log.shape[2:])
    target = target.to(torch.int64)
    ignore = -100 if ignore_index is None else ignore_index
    if not shape:
        return F.nll_loss(log, target, weight, ignore_index=ignore, reduction=reduction)
    flat, labels = log.reshape(n, c, -1), target.reshape(n, -1)
    result = F.nll_loss(flat.unsqueeze(2), labels.unsqueeze(1), weight, ignore_index=ignore, reduction=reduction)
    return result.reshape(n, *shape) if reduction == "none" else result


@row("NegativeLogLikelihoodLoss", 12)
def negative_log_likelihood(
    log: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The weighted negative of the logarithms at the labels."""
    return _nll(log, target, weight, reduction, ignore_index)


@row("SoftmaxCrossEntropyLoss", 12)
def cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> Any:
    """The negative log likelihood of the softmax, and the logarithms."""
    log = torch.log_softmax(scores, 1)
    loss = _nll(log, labels, weight, reduction, ignore_index)
    return (loss, log) if outputs > 1 else loss
