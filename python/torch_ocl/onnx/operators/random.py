"""Random numbers, by PyTorch's generator of the device: a seed makes a net repeatable, not equal to other programs."""

from typing import Any

import torch
from torch import Tensor

from .. import types
from ..registry import row


def _generator(device: torch.device, seed: float | None) -> torch.Generator | None:
    if seed is None:
        return None
    return torch.Generator(device).manual_seed(int(seed))


def _uniform(shape: Any, device: torch.device, dtype: torch.dtype, seed: float | None) -> Tensor:
    return torch.rand(shape, dtype=dtype, device=device, generator=_generator(device, seed))


def _normal(shape: Any, device: torch.device, dtype: torch.dtype, seed: float | None) -> Tensor:
    return torch.randn(shape, dtype=dtype, device=device, generator=_generator(device, seed))


@row("RandomUniform", random=True)
def random_uniform(
    *,
    shape: Any,
    dtype: int = types.FLOAT,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    anchor: Tensor,
) -> Tensor:
    """Numbers between low and high."""
    return _uniform(shape, anchor.device, types.dtype_of(dtype), seed) * (high - low) + low


@row("RandomNormal", random=True)
def random_normal(
    *,
    shape: Any,
    dtype: int = types.FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    anchor: Tensor,
) -> Tensor:
    """Normally distributed numbers."""
    return _normal(shape, anchor.device, types.dtype_of(dtype), seed) * scale + mean


@row("RandomUniformLike", random=True)
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    """RandomUniform with the shape of x."""
    kind = x.dtype if dtype is None else types.dtype_of(dtype)
    return _uniform(x.shape, x.device, kind, seed) * (high - low) + low


@row("RandomNormalLike", random=True)
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    """RandomNormal with the shape of x."""
    kind = x.dtype if dtype is None else types.dtype_of(dtype)
    return _normal(x.shape, x.device, kind, seed) * scale + mean


@row("Bernoulli", 15, random=True)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """1 with the probability x, else 0."""
    kind = x.dtype if dtype is None else types.dtype_of(dtype)
    return (_uniform(x.shape, x.device, torch.float32, seed) < x).to(kind)


@row("Multinomial", 7, random=True)
def multinomial(x: Tensor, *, dtype: int = types.INT32, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Classes drawn by unnormalised logarithms of their probabilities."""
    generator = _generator(x.device, seed)
    drawn = torch.multinomial(torch.softmax(x.float(), -1), sample_size, True, generator=generator)
    return drawn.to(types.dtype_of(dtype))
