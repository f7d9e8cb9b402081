"""Products with GGUF's blocks as they are against float64; the blocks are decoded number by number."""

import importlib.util

import numpy as np
import pytest
import torch

import gguf_files
from conftest import without_fallback
from torch_ocl.gguf import _blocks
from torch_ocl.quantization import QuantizedLinear

KERNELS = ["q8_0", "q4_0", "q4_k", "q6_k"]
STEP = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
# x of 16 bits becomes integers with a step of 2^-15 of the largest number of a segment (q6_k: 2^-14).
WORDS = {"q8_0": 2.0**-15, "q4_0": 2.0**-15, "q4_k": 2.0**-15, "q6_k": 2.0**-14}


def parts_of(rows, form):
    """What the weights are the difference of, in float64: their magnitudes decide the error of a sum."""
    return np.abs(gguf_files.decode(rows, form))


def assert_near(y, x, w, bias, size_of, form, dtype):
    """y = x w^T + bias up to the roundings of the kernels, element by element."""
    exact = x.double() @ w.t() + bias.double()
    size = x.double().abs() @ size_of.t() / x.shape[-1] ** 0.5
    allowed = STEP[dtype] * exact.abs() + 32 * STEP[torch.float32] * size * max(1.0, x.shape[-1] ** 0.5 / 16)
    if dtype != torch.float32:
        allowed += 8 * WORDS[form] * size
    assert y.dtype == dtype and y.device.type == "ocl"
    worst = ((y.cpu().double() - exact).abs() / allowed).max()
    assert worst <= 1, worst


@pytest.mark.parametrize("form", KERNELS)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 37, 256), (3, 50, 512), (16, 9, 1280), (17, 70, 768), (270, 300, 768), (1, 5, 17152)]
)
def test_products(device, form, m, n, k):
    rows = gguf_files.random_rows(n, k, form, seed=m)
    w = torch.from_numpy(gguf_files.decode(rows, form))
    codes = torch.from_numpy(rows)
    # A weight of q4_k is the difference of two numbers, and each is summed on its own.
    size_of = w.abs() + (w.abs().mean() * 2 if form == "q4_k" else 0)
    for dtype in STEP:
        x, bias = torch.randn(m, k).to(dtype), torch.randn(n).to(dtype)
        with without_fallback():
            y = torch.ops.ocl.quantized_linear(x.to(device), codes.to(device), None, None, bias.to(device), form, 32)
        used = w.to(dtype).double() if m > 16 else w  # unpacked weights were rounded to x's type
        assert_near(y, x, used, bias, size_of, form, dtype)


@pytest.mark.parametrize("form", KERNELS)
def test_unpacked_weights(device, form):
    rows = gguf_files.random_rows(11, 768, form)
    exact = torch.from_numpy(gguf_files.decode(rows, form))
    codes = torch.from_numpy(rows)
    for dtype in STEP:
        with without_fallback():
            w = torch.ops.ocl.dequantize_weight(codes.to(device), None, None, form, 768, 32, dtype)
        assert w.device.type == "ocl" and w.dtype == dtype
        atol = 4 * STEP[torch.float32] * exact.abs().max().item()
        torch.testing.assert_close(w.cpu().double(), exact, rtol=STEP[dtype], atol=atol)


@pytest.mark.parametrize("form", gguf_files.BLOCKS)
def test_values_by_operators(device, form):
    rows = gguf_files.random_rows(3, 512, form)
    exact = torch.from_numpy(gguf_files.decode(rows, form))
    for place in ("cpu", device):
        w = _blocks.dequantize(torch.from_numpy(rows).to(place), form)
        torch.testing.assert_close(w.cpu().double(), exact, rtol=1e-6, atol=1e-6)
    if importlib.util.find_spec("gguf"):
        from gguf import GGMLQuantizationType, dequantize

        kind = GGMLQuantizationType(gguf_files.NUMBERS[form])
        np.testing.assert_allclose(dequantize(rows, kind), exact, rtol=1e-6, atol=1e-6)


def test_as_q8_0():
    w = torch.randn(5, 96)
    w[2, 32:64] = 0
    rows = _blocks.to_q8_0(w)
    assert rows.shape == (5, 102)
    torch.testing.assert_close(_blocks.dequantize(rows, "q8_0"), w, rtol=0, atol=w.abs().max().item() / 250)


@pytest.mark.parametrize("form", ["q4_0", "q4_k"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_reaches_its_row_alone(device, form, bad):
    rows = gguf_files.random_rows(20, 256, form)
    w = torch.from_numpy(gguf_files.decode(rows, form))
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    x[1, 40] = bad
    y = torch.ops.ocl.quantized_linear(x.to(device), torch.from_numpy(rows).to(device), None, None, None, form, 32)
    y = y.cpu()
    assert not y[1].isfinite().any() and y[[0, 2]].isfinite().all()
    torch.testing.assert_close(y[[0, 2]].double(), x[[0, 2]].double() @ w.t(), rtol=0.01, atol=0.05)


def test_a_layer_of_blocks(device):
    rows = torch.from_numpy(gguf_files.random_rows(24, 512, "q4_k"))
    bias = torch.nn.Parameter(torch.randn(24))
    layer = QuantizedLinear.from_blocks(rows, "q4_k", bias)
    x = torch.randn(4, 512, requires_grad=True)
    expected = layer(x)
    expected.square().sum().backward()
    moved, y = layer.to(device), x.detach().to(device).requires_grad_()
    actual = moved(y)
    actual.square().sum().backward()
    assert actual.device.type == "ocl"
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-4, atol=1e-3)
    assert set(moved.state_dict()) == {"codes", "bias"}


def test_refuses(device):
    rows = torch.from_numpy(gguf_files.random_rows(4, 256, "q4_k")).to(device)
    x = torch.randn(1, 256, device=device)
    with pytest.raises(ValueError, match="weights of q4_k hold their scales"):
        torch.ops.ocl.quantized_linear(x, rows, torch.ones(4, 1, device=device), None, None, "q4_k", 32)
    with pytest.raises(ValueError, match="must be contiguous uint8 of"):
        torch.ops.ocl.quantized_linear(x[:, :250], rows, None, None, None, "q6_k", 32)
    with pytest.raises(RuntimeError, match="rows must be whole blocks"):
        torch.ops.ocl.quantized_linear(x[:, :100], rows, None, None, None, "q4_k", 32)
    with pytest.raises(ValueError, match="expected blocks of q8_0"):
        QuantizedLinear.from_blocks(rows, "q5_k")
    with pytest.raises(ValueError, match="multiple of 210 bytes"):
        QuantizedLinear.from_blocks(rows, "q6_k")
