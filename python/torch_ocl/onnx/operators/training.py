"""Optimisers of the domain ai.onnx.preview.training. Inputs: rate, step, then all tensors, gradients and states."""

from typing import Any

import torch
from torch import Tensor

from ..registry import row

TRAINING = "ai.onnx.preview.training"


def _groups(tensors: tuple[Tensor, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """Inputs come as all values, all gradients, all first states, ...: one tuple for each parameter."""
    count = len(tensors) // kinds
    return list(zip(*(tensors[i * count : (i + 1) * count] for i in range(kinds))))


def _flatten(results: list[Any]) -> Any:
    flat = tuple(value for column in zip(*results) for value in column)
    return flat if len(flat) > 1 else flat[0]


@row("Adagrad", domain=TRAINING)
def adagrad(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> Any:
    """x - r / (sqrt(h + g^2) + epsilon) * g."""
    rate = rate / (1 + step * decay_factor)
    results = []
    for x, gradient, squares in _groups(tensors, 3):
        g = norm_coefficient * x + gradient
        h = squares + g * g
        results.append((x - rate * g / (torch.sqrt(h) + epsilon), h))
    return _flatten(results)


@row("Momentum", domain=TRAINING)
def momentum(
    rate: Tensor, step: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    """SGD with momentum, standard or nesterov."""
    results = []
    for x, gradient, velocity in _groups(tensors, 3):
        g = norm_coefficient * x + gradient
        v = alpha * velocity + torch.where(step > 0, beta * g, g)
        results.append((x - rate * (g + alpha * v if mode == "nesterov" else v), v))
    return _flatten(results)


@row("Adam", domain=TRAINING)
def adam(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    """Adam with regularisation before and after the step."""
    results = []
    for x, gradient, mean, square in _groups(tensors, 4):
        g = norm_coefficient * x + gradient
        v, h = alpha * mean + (1 - alpha) * g, beta * square + (1 - beta) * g * g
        corrected = rate * torch.sqrt(1 - beta**step) / (1 - alpha**step)
        adjusted = torch.where(step > 0, corrected, rate)
        results.append(((1 - norm_coefficient_post) * (x - adjusted * v / (torch.sqrt(h) + epsilon)), v, h))
    return _flatten(results)
