"""Products with quantised weights: PyTorch's operators and torch_ocl.quantize_ against float64."""

import copy

import pytest
import torch
from torch import nn

import torch_ocl
from conftest import without_fallback
from torch_ocl.quantization import QuantizedLinear, _pack, _unpack

FORMATS = ["int8", "float8", "int4", "nf4", "fp4"]
# The error of a sum of products relative to the root of the sum of their squares, times this many steps of the type.
STEP = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
# x of 16 bits becomes integers with a step of 2^-15 of the largest number of a segment (2^-14 and rounded code values
# for nf4).
WORDS = {"int8": 2.0**-15, "int4": 2.0**-15, "fp4": 2.0**-15, "nf4": 2.0**-10}


def weights(n, k, format, group, *, offset=False, scale_dtype=torch.bfloat16):
    """Random codes, scales and offsets, and the float64 matrix that they stand for."""
    bits = 8 if format in ("int8", "float8") else 4
    codes = torch.randint(0, 2**bits, (n, k), dtype=torch.uint8)
    if format == "float8":
        codes = torch.randn(n, k).to(torch.float8_e4m3fn).view(torch.uint8)
    groups = -(-k // group)
    scales = (torch.rand(n, groups) / 50 + 0.01).to(scale_dtype)
    offsets = (torch.randn(n, groups) / 20).to(scale_dtype) if offset else None
    packed = _pack(codes, bits)
    plain = _unpack(packed, torch.ones_like(scales), None, format, k, group, torch.float64)
    spread = [t.double().repeat_interleave(group, 1)[:, :k] if t is not None else 0 for t in (scales, offsets)]
    return packed, scales, offsets, plain * spread[0] + spread[1]


def assert_near(actual, x, w, bias, format, dtype):
    """actual = x w^T + bias up to the roundings of the kernels, element by element."""
    exact = x.double() @ w.t() + (bias.double() if bias is not None else 0)
    size = (x.double().abs() @ w.abs().t()) / x.shape[-1] ** 0.5
    allowed = STEP[dtype] * exact.abs() + 32 * STEP[torch.float32] * size * max(1.0, x.shape[-1] ** 0.5 / 16)
    if dtype != torch.float32:
        allowed += 8 * WORDS.get(format, 0) * size
    assert actual.dtype == dtype and actual.device.type == "ocl"
    assert bool(((actual.cpu().double() - exact).abs() <= allowed).all())


@pytest.mark.parametrize("dtype", STEP, ids=str)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("m", "n", "k", "group"),
    [
        (1, 64, 64, 64),
        (1, 37, 100, 100),
        (3, 50, 257, 32),
        (16, 70, 1000, 128),
        (17, 70, 1000, 128),
        (270, 300, 999, 96),
        (2, 9, 9000, 96),
        (1, 33, 1600, 320),
        (1, 13, 20000, 20000),
    ],
)
def test_formats(device, format, dtype, m, n, k, group):
    x, bias = torch.randn(m, k).to(dtype), torch.randn(n).to(dtype)
    for offset in (False, True):
        codes, scales, offsets, w = weights(n, k, format, group, offset=offset)
        moved = [t.to(device) if t is not None else None for t in (x, codes, scales, offsets, bias)]
        with without_fallback():
            y = torch.ops.ocl.quantized_linear(*moved, format, group)
            plain = torch.ops.ocl.dequantize_weight(*moved[1:4], format, k, group, torch.float32)
        if m > 16:  # the unpacked weights were rounded to x's type
            w = w.to(dtype).double()
        assert_near(y, x, w, bias, "" if m > 16 else format, dtype)
        assert plain.device.type == "ocl"
        torch.testing.assert_close(plain.cpu().double(), _unpacked(codes, scales, offsets, format, k, group))


def _unpacked(*arguments):
    return _unpack(*arguments, torch.float64)


@pytest.mark.parametrize("format", ["int8", "nf4"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_reaches_its_row_alone(device, format, bad):
    codes, scales, _, w = weights(20, 96, format, 32)
    x = torch.randn(3, 96, dtype=torch.bfloat16)
    x[1, 40] = bad
    y = torch.ops.ocl.quantized_linear(x.to(device), codes.to(device), scales.to(device), None, None, format, 32).cpu()
    expected = x.double() @ w.t()
    assert torch.equal(y.isnan(), expected.isnan()) and torch.equal(y.isinf(), expected.isinf())
    assert y[[0, 2]].isfinite().all()


def test_large_and_small_numbers_of_x(device):
    codes, scales, _, w = weights(20, 256, "int8", 256)
    x = torch.randn(4, 256) * torch.tensor([[1e30], [1e-30], [1.0], [0.0]])
    x = x.to(torch.bfloat16)
    y = torch.ops.ocl.quantized_linear(x.to(device), codes.to(device), scales.to(device), None, None, "int8", 256)
    torch.testing.assert_close(y.cpu().double(), x.double() @ w.t(), rtol=0.02, atol=1e-32)
    assert bool((y[3] == 0).all())


@pytest.mark.parametrize("dtype", STEP, ids=str)
def test_weight_int8pack_mm(device, dtype):
    for m, n, k in [(1, 40, 64), (5, 33, 100), (40, 64, 96)]:
        x, w = torch.randn(m, k).to(dtype), torch.randint(-128, 128, (n, k), dtype=torch.int8)
        scales = (torch.rand(n) / 100).to(dtype)
        with without_fallback():
            y = torch._weight_int8pack_mm(x.to(device), w.to(device), scales.to(device))
        full = w.double() * scales.double().unsqueeze(1)
        assert_near(y, x, full if m <= 16 else full.to(dtype).double(), None, "int8" if m <= 16 else "", dtype)
    with pytest.raises(RuntimeError, match="expected B to be int8"):
        torch._weight_int8pack_mm(x.to(device), w.to(device).int(), scales.to(device))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("group", [32, 64, 128, 256])
@pytest.mark.parametrize("tiles", [2, 4, 8])
def test_int4pack_under_both_names(device, dtype, group, tiles):
    n, k = 48, 512
    codes = torch.randint(0, 16, (n, k), dtype=torch.int32)
    scales_zeros = torch.stack((torch.rand(k // group, n) / 50, torch.randn(k // group, n) / 10), -1).to(dtype)
    scale, zero = (scales_zeros[..., i].t().double().repeat_interleave(group, 1) for i in (0, 1))
    w = (codes.double() - 8) * scale + zero
    joined = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    for m in (1, 6, 30):
        x = torch.randn(m, k).to(dtype)
        with without_fallback():
            packed = torch._convert_weight_to_int4pack(joined.to(device), tiles)
            y = torch._weight_int4pack_mm(x.to(device), packed, group, scales_zeros.to(device))
            for_cpu = torch._convert_weight_to_int4pack_for_cpu(codes.to(device), tiles)
            same = torch._weight_int4pack_mm_for_cpu(x.to(device), for_cpu, group, scales_zeros.to(device))
        assert packed.dtype == torch.int32 and packed.shape == (n // 8, k // (tiles * 16), 32, tiles // 2)
        assert for_cpu.dtype == torch.uint8 and for_cpu.shape == (n, k // 2)
        assert_near(y, x, w if m <= 16 else w.to(dtype).double(), None, "int4" if m <= 16 else "", dtype)
        assert torch.equal(y, same)


def test_int4pack_refuses(device):
    x, scales = torch.randn(1, 64, device=device), torch.rand(2, 8, 2, device=device)
    packed = torch._convert_weight_to_int4pack(torch.zeros(8, 32, dtype=torch.uint8, device=device), 2)
    with pytest.raises(RuntimeError, match="expected qGroupSize"):
        torch._weight_int4pack_mm(x, packed, 48, scales)
    with pytest.raises(RuntimeError, match="expected qScaleAndZeros"):
        torch._weight_int4pack_mm(x, packed, 64, scales)
    with pytest.raises(RuntimeError, match="divisible by 8"):
        torch._convert_weight_to_int4pack(torch.zeros(9, 32, dtype=torch.uint8, device=device), 2)
    with pytest.raises(RuntimeError, match="kByte"):
        torch._convert_weight_to_int4pack(torch.zeros(8, 32, device=device), 2)


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 5, 7), (17, 2000, 33), (64, 512, 64), (3, 0, 4)])
def test_int_mm_is_exact(device, unsigned, m, k, n):
    a = torch.randint(0, 256, (m, k), dtype=torch.uint8) if unsigned else torch.full((m, k), -128, dtype=torch.int8)
    b = torch.randint(-128, -120, (k, n), dtype=torch.int8)
    with without_fallback():
        y = torch._int_mm(a.to(device), b.to(device))
        turned = torch._int_mm(a.to(device), b.t().contiguous().to(device).t())
    expected = (a.double() @ b.double()).to(torch.int32)
    assert y.dtype == torch.int32 and torch.equal(y.cpu(), expected) and torch.equal(turned.cpu(), expected)


@pytest.mark.parametrize("block", [32, 256])
@pytest.mark.parametrize("has_bias", [False, True])
def test_dyn_quant_matmul_4bit(device, block, has_bias):
    n, k = 24, 256
    w = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    scales = (torch.rand(n, k // block) / 50).to(torch.float32 if block == k else torch.bfloat16)
    bias = torch.randn(n) if has_bias else None
    x = torch.randn(5, k)
    packed = torch.ops.aten._dyn_quant_pack_4bit_weight(w, scales, bias, block, k, n)
    expected = torch.ops.aten._dyn_quant_matmul_4bit(x, packed, block, k, n)
    if has_bias:  # PyTorch's own kernel leaves the bias out on some processors
        plain = torch.ops.aten._dyn_quant_pack_4bit_weight(w, scales, None, block, k, n)
        expected = torch.ops.aten._dyn_quant_matmul_4bit(x, plain, block, k, n) + bias
    with without_fallback():
        moved = torch.ops.aten._dyn_quant_pack_4bit_weight(
            w.to(device), scales.to(device), bias.to(device) if has_bias else None, block, k, n
        )
        y = torch.ops.aten._dyn_quant_matmul_4bit(x.to(device), moved, block, k, n)
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-4, atol=1e-4)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(200, 96), nn.GELU(), nn.Sequential(nn.Linear(96, 40, bias=False)))


# Root mean square of the error relative to that of the weights, normal ones.
ERRORS = {"int8": 0.01, "float8": 0.03, "int4": 0.13, "nf4": 0.11, "fp4": 0.13}


@pytest.mark.parametrize("format", FORMATS)
def test_quantize(device, format):
    model = network()
    original = copy.deepcopy(model)
    assert torch_ocl.quantize_(model, format) is model
    assert isinstance(model[0], QuantizedLinear) and isinstance(model[2][0], QuantizedLinear)
    for layer, old in ((model[0], original[0]), (model[2][0], original[2][0])):
        lost = (layer.dequantize() - old.weight).square().mean().sqrt() / old.weight.square().mean().sqrt()
        assert 0 < lost < ERRORS[format]
    x = torch.randn(7, 200)
    with torch.no_grad():
        expected = model(x)
        moved = copy.deepcopy(model).to(device)
        with without_fallback():
            y = moved(x.to(device))
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-4, atol=1e-5)
    other = torch_ocl.quantize_(network(), format)
    other.load_state_dict(moved.state_dict())
    torch.testing.assert_close(other(x), expected)


def test_quantize_on_the_device_gives_the_same_codes(device):
    for format in FORMATS:
        here, there = torch_ocl.quantize_(network(), format), torch_ocl.quantize_(network().to(device), format)
        for a, b in zip(here.state_dict().values(), there.state_dict().values(), strict=True):
            if a.dtype == torch.uint8:
                assert (a != b.cpu()).float().mean() < 0.01  # halves may be rounded either way
            else:
                torch.testing.assert_close(a, b.cpu())


def test_quantize_with_offsets_and_a_choice(device):
    model = network()
    with torch.no_grad():
        model[0].weight += 0.3
    plain, shifted = copy.deepcopy(model), copy.deepcopy(model)
    torch_ocl.quantize_(plain, "int4", group_size=32, modules=lambda name, layer: name == "0")
    torch_ocl.quantize_(shifted, "int4", group_size=32, symmetric=False)
    assert type(plain[2][0]) is nn.Linear
    errors = [(m[0].dequantize() - model[0].weight).square().mean() for m in (plain, shifted)]
    assert errors[1] < errors[0] / 2
    x = torch.randn(2, 200)
    torch.testing.assert_close(shifted.to(device)(x.to(device)).cpu(), shifted.cpu()(x), rtol=1e-4, atol=1e-5)


def test_gradient_of_the_input(device):
    model = torch_ocl.quantize_(network(), "int8").to(device)
    plain = network()
    plain[0].weight.data, plain[2][0].weight.data = model[0].dequantize().cpu(), model[2][0].dequantize().cpu()
    x = torch.randn(4, 200, requires_grad=True)
    plain(x).square().sum().backward()
    y = x.detach().to(device).requires_grad_()
    model(y).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[0].bias.grad.cpu(), plain[0].bias.grad, rtol=1e-4, atol=1e-5)


def test_autocast(device):
    model = torch_ocl.quantize_(network(), "int8").to(device)
    with torch.no_grad(), torch.autocast("ocl", dtype=torch.bfloat16):
        assert model(torch.randn(4, 200, device=device)).dtype == torch.bfloat16


def test_quantize_refuses():
    with pytest.raises(ValueError, match="unknown format 'int3'"):
        torch_ocl.quantize_(network(), "int3")
    with pytest.raises(ValueError, match="multiple of 32, but got 20"):
        torch_ocl.quantize_(network(), "int4", group_size=20)
    with pytest.raises(ValueError, match="only int8 and int4 have offsets"):
        torch_ocl.quantize_(network(), "nf4", symmetric=False)
    with pytest.raises(ValueError, match=r"no nn\.Linear"):
        torch_ocl.quantize_(nn.Linear(4, 4), "int8")
    with pytest.raises(RuntimeError, match=r"expected an input of \[\.\.\., 200\]"):
        torch_ocl.quantize_(network(), "int8")(torch.randn(2, 5))
