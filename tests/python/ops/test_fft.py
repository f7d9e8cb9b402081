"""Fourier transforms against the CPU: lengths with every kind of factor, several dimensions, gradients,
spectrograms."""

import pytest
import torch

from conformance.tolerances import assert_close


def compare(function, x):
    """Values and gradients agree with complex128; twice as exact as the CPU's transforms of float32 need not be."""
    wide = torch.complex128 if x.is_complex() else torch.float64
    exact, own, on_device = (t.requires_grad_() for t in (x.to(wide), x.clone(), x.to("ocl")))
    expected, here, actual = function(exact), function(own), function(on_device)
    assert actual.device.type == "ocl" and actual.dtype == here.dtype
    assert_close(actual, expected, terms=x.numel(), own=here)
    cotangent = torch.randn(expected.shape, dtype=expected.dtype)
    e, o, a = (
        torch.autograd.grad(result, leaf, cotangent.to(result))[0]
        for result, leaf in ((expected, exact), (here, own), (actual, on_device))
    )
    assert_close(a, e, terms=x.numel(), own=o)


@pytest.mark.parametrize("n", [1, 2, 16, 60, 77, 97, 1000])
def test_lengths(n, no_fallback):
    x = torch.randn(3, n)
    compare(torch.fft.rfft, x)
    compare(torch.fft.fft, x)
    compare(torch.fft.ifft, torch.complex(x, x.flip(0)))
    compare(lambda z: torch.fft.irfft(z, n=n), torch.fft.rfft(x))


def test_long_rows_of_real_numbers(no_fallback):
    x = torch.randn(2, 18000)
    for function in (torch.fft.fft, torch.fft.rfft, torch.fft.ihfft):
        compare(function, x)
    compare(lambda z: torch.fft.fft(z, dim=0), x[:, :600])


def test_several_dimensions(no_fallback):
    x = torch.randn(2, 5, 6, 9).transpose(1, 3)
    compare(lambda z: torch.fft.fftn(z, dim=(1, -1), norm="ortho"), x)
    compare(lambda z: torch.fft.irfft2(torch.fft.rfft2(z) * 2, s=z.shape[-2:]), x)


def test_spectrogram_and_back(no_fallback):
    window = torch.hann_window(64)

    def function(x):
        w = window.to(x)
        spectrum = torch.stft(x, 64, hop_length=16, window=w, return_complex=True)
        return torch.istft(spectrum * 0.5, 64, hop_length=16, window=w, length=x.shape[-1])

    compare(function, torch.randn(2, 1000))
