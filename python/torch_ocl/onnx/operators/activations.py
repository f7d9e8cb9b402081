"""Activation functions."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import add, row
from .elementwise import aligned

for _name, _function in {
    "HardSwish": F.hardswish,
    "Mish": F.mish,
    "Relu": F.relu,
    "Sigmoid": torch.sigmoid,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
}.items():
    add(_name, 1, _function, family="activations")


@row("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, or alpha * (exp(x) - 1) where x is negative."""
    return F.elu(x, alpha)


@row("Celu", 12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return F.celu(x, alpha)


@row("Selu", 6)
def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive."""
    return gamma * F.elu(x, alpha)


@row("Selu", 1)
def selu_1(x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Tensor:
    """Selu with the shorter defaults of opset 1."""
    return gamma * F.elu(x, alpha)


@row("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x, or alpha * x where x is negative."""
    return F.leaky_relu(x, alpha)


@row("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is above alpha, 0 elsewhere."""
    return F.threshold(x, alpha, 0.0)


@row("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """max(0, min(1, alpha * x + beta))."""
    return torch.clamp(x * alpha + beta, 0, 1)


@row("Shrink", 9)
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved by bias towards 0 where |x| > lambd, 0 elsewhere."""
    low, high = x + bias, x - bias
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, low.to(x.dtype), torch.where(x > lambd, high.to(x.dtype), zero))


@row("Gelu", 20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x * Phi(x), exact or by tanh."""
    return F.gelu(x, approximate=approximate)


@row("Swish", 24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return F.silu(x) if alpha == 1.0 else x * torch.sigmoid(alpha * x)


@row("PRelu", 7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x, or slope * x where x is negative; the slope broadcasts to x."""
    return torch.where(x < 0, x * slope, x)


@row("PRelu", 1)
def prelu_of_channels(x: Tensor, slope: Tensor) -> Tensor:
    """PRelu with one slope, or one for each channel."""
    return prelu(x, slope if slope.numel() == 1 or x.dim() < 2 else aligned(x, slope, 1))


@row("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x) over its sum along the axis."""
    return torch.softmax(x, axis)


@row("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of softmax."""
    return torch.log_softmax(x, axis)


@row("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first maximum along the axis, 0 elsewhere."""
    position = torch.argmax(x, axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, position, 1)


def _matrix(x: Tensor, axis: int) -> Tensor:
    rows = 1
    for size in x.shape[: axis % x.dim() if axis != x.dim() else axis]:
        rows *= size
    return x.reshape(rows, -1)


@row("Softmax", 1)
def softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Before opset 13: over all axes from `axis` on."""
    return torch.softmax(_matrix(x, axis), 1).reshape(x.shape)


@row("LogSoftmax", 1)
def log_softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Before opset 13: over all axes from `axis` on."""
    return torch.log_softmax(_matrix(x, axis), 1).reshape(x.shape)


@row("Hardmax", 1)
def hardmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Before opset 13: over all axes from `axis` on."""
    return hardmax(_matrix(x, axis), axis=1).reshape(x.shape)
