"""Fourier transforms, windows, mel weights."""

import math
from typing import Any

import numpy
import torch
from torch import Tensor

from .. import types
from ..registry import row


def _scalar(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def _complex(x: Tensor) -> Tensor:
    """The last axis holds a real part, or a real and an imaginary part."""
    if x.shape[-1] == 1:
        return x.squeeze(-1)
    return torch.view_as_complex(x.contiguous())


def _transform(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Tensor:
    dtype = x.dtype
    x = x if dtype in (torch.float32, torch.float64) else x.float()
    axis = axis % x.dim()
    if inverse and onesided:
        count = 2 * (x.shape[axis] - 1) if length is None else length
        return torch.fft.irfft(_complex(x), count, axis).unsqueeze(-1).to(dtype)
    count = x.shape[axis] if length is None else length
    if inverse:
        result = torch.fft.ifft(_complex(x), count, axis)
    else:
        result = torch.fft.fft(_complex(x), count, axis)
        result = result.narrow(axis, 0, count // 2 + 1) if onesided else result
    return torch.view_as_real(result).to(dtype)


@row("DFT", 20, host=(1, 2))
def dft(x: Tensor, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    """The discrete Fourier transform along an axis."""
    return _transform(x, _scalar(length), -2 if axis is None else _scalar(axis), inverse, onesided)


@row("DFT", 17, host=(1,))
def dft_17(x: Tensor, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    """DFT with its axis as an attribute."""
    return _transform(x, _scalar(length), axis, inverse, onesided)


@row("STFT", 17, host=(1, 3))
def stft(x: Tensor, step: Any, window: Tensor | None = None, length: Any = None, *, onesided: int = 1) -> Tensor:
    """Fourier transforms of windows of a signal [batch, length, 1 or 2]."""
    step = _scalar(step)
    size = _scalar(length) if length is not None else window.shape[0] if window is not None else x.shape[1]
    frames = x.unfold(1, size, step).transpose(2, 3)  # [batch, frames, size, parts]
    if window is not None:
        frames = frames * window.reshape(1, 1, -1, 1)
    return _transform(frames, None, 2, 0, onesided)


def _cosines(size: Any, periodic: int, output_datatype: int, anchor: Tensor, terms: tuple[float, ...]) -> Tensor:
    count = _scalar(size)
    place = torch.arange(count, dtype=torch.float32, device=anchor.device)
    period = count if periodic else count - 1
    window = sum(
        (term * torch.cos(place * (2 * math.pi * k / period)) for k, term in enumerate(terms)), torch.zeros_like(place)
    )
    return window.to(types.dtype_of(output_datatype))


@row("HannWindow", 17, host=(0,))
def hann_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Tensor) -> Tensor:
    """0.5 - 0.5 cos."""
    return _cosines(size, periodic, output_datatype, anchor, (0.5, -0.5))


@row("HammingWindow", 17, host=(0,))
def hamming_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Tensor) -> Tensor:
    """25/46 - 21/46 cos."""
    return _cosines(size, periodic, output_datatype, anchor, (25 / 46, -21 / 46))


@row("BlackmanWindow", 17, host=(0,))
def blackman_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Tensor) -> Tensor:
    """0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _cosines(size, periodic, output_datatype, anchor, (0.42, -0.5, 0.08))


@row("MelWeightMatrix", 17, host=(0, 1, 2, 3, 4))
def mel_weights(
    bins: Any, length: Any, rate: Any, lowest: Any, highest: Any, *, output_datatype: int = 1, anchor: Tensor
) -> Tensor:
    """Triangular filters from a spectrum to bins of the mel scale."""
    bins, length, rate, lowest, highest = (_scalar(value) for value in (bins, length, rate, lowest, highest))
    low, high = (2595 * math.log10(1 + edge / 700) for edge in (lowest, highest))
    mels = low + numpy.arange(bins + 2) * ((high - low) / (bins + 2))
    places = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    weights = numpy.zeros((length // 2 + 1, bins), dtype=numpy.float32)
    for index in range(bins):
        left, centre, right = places[index : index + 3]
        if centre == left:
            weights[centre, index] = 1
        else:
            rising = numpy.arange(left, centre + 1)
            weights[rising, index] = (rising - left) / (centre - left)
        if right > centre:
            falling = numpy.arange(centre, right)
            weights[falling, index] = (right - falling) / (right - centre)
    return torch.from_numpy(weights).to(anchor.device, types.dtype_of(output_datatype))
