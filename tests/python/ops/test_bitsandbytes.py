"""bitsandbytes' operators and layers on the device, against its own ones on the CPU and float64."""

import pytest
import torch

from conftest import without_fallback

bnb = pytest.importorskip("bitsandbytes")
from bitsandbytes import functional  # noqa: E402  the package may be absent

OPS = torch.ops.bitsandbytes
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def quantised(n, k, quant_type, **options):
    """Packed codes and their state, on the CPU; the numbers that they stand for, float64."""
    packed, state = functional.quantize_4bit(torch.randn(n, k) * 0.1, quant_type=quant_type, **options)
    codes = torch.stack((packed.flatten() >> 4, packed.flatten() & 15), -1).flatten()[: n * k]
    # bitsandbytes' own function for the CPU is wrong where a block ends inside of a row.
    factors = state.absmax.double().repeat_interleave(state.blocksize)[: n * k]
    return packed, state, (state.code.double()[codes.long()] * factors).view(n, k)


def assert_product(actual, x, weight, bias=None, c=8):
    expected = x.double() @ weight.T + (0 if bias is None else bias.double())
    assert actual.device.type == "ocl" and actual.dtype == x.dtype and actual.shape == expected.shape
    size = (x.double().square() @ weight.T.square()).sqrt()
    bound = c * torch.finfo(x.dtype).eps * (size + expected.abs()) + 1e-30
    assert ((actual.cpu().double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [(), (3,), (2, 20)])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_products_of_4_bits(device, no_fallback, quant_type, rows, dtype):
    packed, state, weight = quantised(48, 192, quant_type)
    x, bias = torch.randn(*rows, 192).to(dtype), torch.randn(48).to(dtype)
    state.to(device)
    options = {} if not hasattr(OPS, "gemm_4bit") else {"bias": bias.to(device)}
    there, codes = x.to(device), packed.to(device)
    if options:
        actual = OPS.gemm_4bit(there, codes, [48, 192], state.absmax, 64, quant_type, **options)
        assert_product(actual, x, weight, bias)
    table = functional.get_4bit_type(quant_type, device=device)
    assert_product(OPS.gemv_4bit(there, codes, [48, 192], state.absmax, table, 64), x, weight)
    out = torch.empty(*rows, 48, dtype=dtype, device=device)
    OPS.gemv_4bit.out(there, codes, [48, 192], state.absmax, table, 64, out=out)
    assert_product(out, x, weight)


@pytest.mark.parametrize(
    ("n", "k", "blocksize"), [(5, 96, 32), (6, 64, 256), (7, 96, 64), (3, 50, 64), (8, 1024, 4096)]
)
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_blocks_and_rows(device, no_fallback, quant_type, n, k, blocksize):
    """Blocks that are parts of rows, several rows, and end inside of rows."""
    packed, state, weight = quantised(n, k, quant_type, blocksize=blocksize)
    numbers = OPS.dequantize_4bit(
        packed.to(device), state.absmax.to(device), blocksize, quant_type, [n, k], torch.float32
    )
    assert numbers.device.type == "ocl"
    torch.testing.assert_close(numbers.cpu().double(), weight, rtol=1e-6, atol=0)
    if hasattr(OPS, "gemm_4bit"):
        x = torch.randn(4, k)
        codes, absmax = packed.to(device), state.absmax.to(device)
        assert_product(OPS.gemm_4bit(x.to(device), codes, [n, k], absmax, blocksize, quant_type), x, weight)


@pytest.mark.parametrize("storage", [torch.uint8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_codes_are_the_cpus(device, no_fallback, quant_type, storage):
    """Also where bytes are stored as another type, and with statistics that are codes themselves."""
    w = torch.randn(40, 256)
    options = {"quant_type": quant_type, "quant_storage": storage}
    packed, state = functional.quantize_4bit(w, **options)
    moved, there = functional.quantize_4bit(w.to(device), **options)
    assert moved.device.type == "ocl" and moved.dtype == storage
    assert torch.equal(moved.cpu().view(torch.uint8), packed.view(torch.uint8))
    assert torch.equal(there.absmax.cpu(), state.absmax)
    numbers = functional.dequantize_4bit(moved, there)
    torch.testing.assert_close(numbers.cpu(), functional.dequantize_4bit(packed, state), rtol=1e-6, atol=0)
    packed, state = functional.quantize_4bit(w, compress_statistics=True, **options)
    expected = functional.dequantize_4bit(packed, state)
    state.to(device)
    numbers = functional.dequantize_4bit(packed.to(device), state)
    torch.testing.assert_close(numbers.cpu(), expected, rtol=1e-6, atol=0)


def layer(kind, *sizes, **options):
    torch.manual_seed(3)
    return kind(*sizes, **options).eval()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_linear_4bit(device, no_fallback, quant_type, compressed):
    """The layer with its gradient for the input, as adapters need it."""
    options = dict(compute_dtype=torch.float32, quant_type=quant_type, compress_statistics=compressed)
    moved = layer(bnb.nn.Linear4bit, 128, 56, **options).to(device)
    weight = functional.dequantize_4bit(moved.weight.data, moved.weight.quant_state).cpu().double()
    bias = moved.bias.detach().cpu()
    x = torch.randn(2, 9, 128)
    there = x.to(device).requires_grad_()
    result = moved(there)
    assert_product(result.detach(), x, weight, bias)
    grad = torch.randn(2, 9, 56)
    result.backward(grad.to(device))
    assert_product(there.grad, grad, weight.T)
    with torch.no_grad():
        assert_product(moved(there[0, :1]), x[0, :1], weight, bias)
    assert moved(there[:0]).shape == (0, 9, 56)


@pytest.mark.parametrize("k", [256, 200])
@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_linear_8bit(device, no_fallback, threshold, rows, k):
    """The same integers as on the CPU; columns with outliers are multiplied as numbers."""
    options = dict(has_fp16_weights=False, threshold=threshold)
    here, moved = (layer(bnb.nn.Linear8bitLt, k, 56, **options).to(place) for place in ("cpu", device))
    assert moved.weight.dtype == torch.int8 and moved.weight.device.type == "ocl"
    x = torch.randn(rows, k)
    x[0, 3] = 20
    with torch.no_grad():
        expected, actual = here(x.half()), moved(x.half().to(device))
    assert actual.device.type == "ocl" and actual.dtype == torch.float16
    bound = 4 * torch.finfo(torch.float16).eps * expected.abs().max().item()
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=bound)


@pytest.mark.parametrize("k", [1056, 2000])
def test_products_of_int8(device, no_fallback, k):
    a, b = torch.randint(-128, 128, (2, 5, k), dtype=torch.int8), torch.randint(-128, 128, (33, k), dtype=torch.int8)
    expected = a.long() @ b.long().T
    actual = OPS.int8_linear_matmul(a.to(device), b.to(device))
    assert actual.device.type == "ocl" and torch.equal(actual.cpu().long(), expected)
    rows, columns, bias = torch.rand(10) + 0.5, torch.rand(33) + 0.5, torch.randn(33)
    moved = [t.to(device) for t in (a.view(-1, k), b, rows, columns, bias)]
    scaled = OPS.int8_scaled_mm(*moved, dtype=torch.float32)
    factors = rows.double().unsqueeze(1) * columns.double() / 127**2
    wanted = expected.view(10, 33) * factors + bias
    bound = 8 * 2**-23 * (wanted.abs() + 127**2 * factors * k**0.5)
    assert ((scaled.cpu().double() - wanted).abs() <= bound).all()


def test_wrong_arguments(device):
    packed, state, _ = quantised(8, 64, "nf4")
    codes, absmax = packed.to(device), state.absmax.to(device)
    with pytest.raises(ValueError, match="quant_type must be"):
        OPS.dequantize_4bit(codes, absmax, 64, "int4", [8, 64], torch.float32)
    with pytest.raises(RuntimeError, match="invalid blocksize"):
        OPS.dequantize_4bit(codes, absmax, 7, "nf4", [8, 64], torch.float32)
    with pytest.raises(RuntimeError, match="do not hold"):
        OPS.dequantize_4bit(codes, absmax, 64, "nf4", [9, 64], torch.float32)
    with pytest.raises(RuntimeError, match="statistics"):
        OPS.dequantize_4bit(codes, absmax[:-1], 64, "nf4", [8, 64], torch.float32)
    with pytest.raises(RuntimeError, match="16/32-bit floats"):
        OPS.dequantize_4bit(codes, absmax, 64, "nf4", [8, 64], torch.float64)
    table = functional.get_4bit_type("nf4", device=device)
    with pytest.raises(RuntimeError, match="must match"):
        OPS.gemv_4bit(torch.randn(3, 32, device=device), codes, [8, 64], absmax, table, 64)
    with pytest.raises(RuntimeError, match=r"Expected out.shape"):
        OPS.gemv_4bit.out(
            torch.randn(3, 64, device=device), codes, [8, 64], absmax, table, 64, out=torch.empty(3, 9, device=device)
        )


def saved_model(folder):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        **sizes, num_key_value_heads=2, vocab_size=128, initializer_range=0.2, eos_token_id=None, pad_token_id=0
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return transformers


@pytest.mark.parametrize(
    "options",
    [
        dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
        dict(load_in_4bit=True, bnb_4bit_quant_type="fp4"),
        dict(load_in_8bit=True),
    ],
    ids=["nf4", "fp4", "int8"],
)
def test_transformers(device, tmp_path, options):
    """A model that is quantised while it is loaded writes what one of the same numbers writes."""
    transformers = saved_model(tmp_path)
    pytest.importorskip("accelerate")
    if "load_in_4bit" in options:
        options = {**options, "bnb_4bit_compute_dtype": torch.float32}
    config = transformers.BitsAndBytesConfig(**options)
    moved = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=config, device_map=device, dtype=torch.float32
    )
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    for name, module in moved.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            numbers = functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
        elif isinstance(module, bnb.nn.Linear8bitLt):
            numbers = module.weight.data.float() * (module.weight.SCB.unsqueeze(1) / 127)
        else:
            continue
        assert module.weight.device.type == "ocl"
        plain.get_submodule(name).weight.data = numbers.float().cpu()
    assert moved.get_memory_footprint() < (0.7 if "load_in_8bit" in options else 0.6) * plain.get_memory_footprint()
    ids = torch.arange(1, 9).unsqueeze(0)
    with torch.no_grad(), without_fallback():
        logits = moved(ids.to(device)).logits
        tokens = moved.generate(ids.to(device), max_new_tokens=16, do_sample=False)
    with torch.no_grad():
        expected = plain(ids).logits
    assert logits.device.type == "ocl"
    if "load_in_8bit" in options:  # the input is rounded to 8 bits as well
        lost = (logits.cpu().float() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        assert lost < 0.05 and tokens.shape == (1, 24)
    else:
        torch.testing.assert_close(logits.cpu(), expected, rtol=2e-4, atol=2e-4 * expected.abs().max().item())
        assert torch.equal(tokens.cpu(), plain.generate(ids, max_new_tokens=16, do_sample=False))
