"""Fourier transforms against the CPU: lengths with every kind of factor, several dimensions, gradients,
spectrograms."""

import pytest
import torch


def compare(function, x):
    on_cpu, on_device = x.clone().requires_grad_(), x.to("ocl").requires_grad_()
    expected, actual = function(on_cpu), function(on_device)
    assert actual.device.type == "ocl" and actual.dtype == expected.dtype
    scale = expected.abs().max().item()
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=0, atol=3e-6 * scale)
    cotangent = torch.randn(expected.shape, dtype=expected.dtype)
    (e,) = torch.autograd.grad(expected, on_cpu, cotangent)
    (a,) = torch.autograd.grad(actual, on_device, cotangent.to("ocl"))
    torch.testing.assert_close(a.cpu(), e, rtol=0, atol=3e-6 * e.abs().max().item())


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
        w = window.to(x.device)
        spectrum = torch.stft(x, 64, hop_length=16, window=w, return_complex=True)
        return torch.istft(spectrum * 0.5, 64, hop_length=16, window=w, length=x.shape[-1])

    compare(function, torch.randn(2, 1000))
