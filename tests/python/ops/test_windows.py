"""Window functions made on the device, by every overload, against the CPU's float64."""

import pytest
import torch

LENGTHS = [0, 1, 2, 12, 257]
NAMES = ["bartlett_window", "blackman_window", "hann_window", "hamming_window", "kaiser_window"]


def compare(window, expected, tolerance=2e-6):
    assert window.device.type == "ocl"
    torch.testing.assert_close(window.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_windows(name, length, device, no_fallback):
    function = getattr(torch, name)
    for periodic in (True, False):
        expected = function(length, periodic=periodic, dtype=torch.float64)
        compare(function(length, periodic=periodic, device=device), expected)
        compare(function(length, periodic=periodic, dtype=torch.float64, device=device), expected, 1e-14)
        for dtype in (torch.float16, torch.bfloat16):
            window = function(length, periodic=periodic, dtype=dtype, device=device)
            own = function(length, periodic=periodic, dtype=dtype)
            assert window.dtype == dtype
            own_error = (own.double() - expected).abs().max().item() if length else 0.0
            close = 2 * own_error + 2 * torch.finfo(dtype).eps  # rounded after every step
            torch.testing.assert_close(window.cpu().double(), expected, rtol=0, atol=close)
        with torch.device(device):
            compare(function(length, periodic=periodic), expected)


@pytest.mark.parametrize("beta", [0.0, 0.5, 12.0, -12.0, 85.0])
def test_kaiser_overloads(beta, device, no_fallback):
    op = torch.ops.aten.kaiser_window
    expected = torch.kaiser_window(33, True, beta, dtype=torch.float64)
    compare(torch.kaiser_window(33, True, beta, device=device), expected, 1e-5)
    compare(op.beta_out(33, True, beta, out=torch.empty(0, device=device)), expected, 1e-5)
    if beta == 12.0:
        compare(op.out(33, out=torch.empty(0, device=device)), torch.kaiser_window(33, dtype=torch.float64))
        compare(op.periodic_out(33, False, out=torch.empty(33, device=device)),
                torch.kaiser_window(33, False, dtype=torch.float64))  # fmt: skip


def test_kaiser_of_a_large_beta(device, no_fallback):
    """I0(800) is no number of float32, and the window still is."""
    expected = torch.kaiser_window(65, False, 500.0, dtype=torch.float64)
    compare(torch.kaiser_window(65, False, 500.0, device=device), expected, 1e-4)


def test_default_device(device, no_fallback):
    torch.set_default_device(device)
    try:
        windows = [getattr(torch, name)(9) for name in NAMES]
    finally:
        torch.set_default_device(None)
    for name, window in zip(NAMES, windows):
        compare(window, getattr(torch, name)(9, dtype=torch.float64))


@pytest.mark.parametrize("name", NAMES)
def test_integers_are_refused(name, device):
    with pytest.raises(RuntimeError, match="expects floating point dtypes"):
        getattr(torch, name)(9, dtype=torch.int64, device=device)


@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_signal_windows(name, device, no_fallback):
    function = getattr(torch.signal.windows, name)
    options = {"a": [0.5, 0.25]} if name == "general_cosine" else {}
    for sym in (True, False):
        expected = function(21, sym=sym, dtype=torch.float64, **options)
        compare(function(21, sym=sym, device=device, **options), expected, 5e-6)
        with torch.device(device):
            compare(function(21, sym=sym, **options), expected, 5e-6)
