"""torchao's configurations on the device: against float64, or against torchao on the CPU where inputs are rounded."""

import copy

import pytest
import torch
from torch import nn

from conftest import without_fallback
from torch_ocl import _torchao

torchao = pytest.importorskip("torchao")
from torchao import quantization as ao  # noqa: E402  the package may be absent

try:
    from torchao.quantization.quantize_.workflows.int8 import int8_tensor  # noqa: F401
except ImportError:
    pytest.skip("another version of torchao", allow_module_level=True)

WEIGHTS = {
    "int8": ao.Int8WeightOnlyConfig(),
    "int8 groups": ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(32)),
    "int8 tensor": ao.Int8WeightOnlyConfig(granularity=ao.PerTensor()),
    "float8": ao.Float8WeightOnlyConfig(),
    "float8 tensor": ao.Float8WeightOnlyConfig(granularity=ao.PerTensor()),
    "int4 in bytes": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
    "asymmetric int3": ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int3, granularity=ao.PerAxis(0), mapping_type=ao.MappingType.ASYMMETRIC
    ),
}
ROUNDED = {
    "int8": ao.Int8DynamicActivationInt8WeightConfig(),
    "asymmetric int8": ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ao.MappingType.ASYMMETRIC),
    "int4 in bytes": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4),
}
SIZES = [(1, 256), (5, 256), (2, 20, 256)]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def kernels(monkeypatch):
    """The products for which there was a kernel."""
    made, original = [], _torchao._product

    def product(*args):
        result = original(*args)
        if result is not None:
            made.append(args[-1])
        return result

    monkeypatch.setattr(_torchao, "_product", product)
    return made


def model_of(dtype, k=256, n=48):
    return nn.Sequential(nn.Linear(k, n)).to(dtype).eval().requires_grad_(False)


def assert_product(actual, x, weight, bias):
    assert actual.device.type == "ocl" and actual.dtype == x.dtype
    expected = x.double() @ weight.double().T + bias.double()
    size = (x.double().square() @ weight.double().square().T).sqrt()
    bound = torch.finfo(x.dtype).eps * (x.shape[-1] ** 0.5 * size + 4 * (expected.abs() + bias.double().abs()))
    assert ((actual.cpu().double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(device, no_fallback, kernels, name, dtype):
    """Quantised on the CPU and moved, and quantised on the device: the same codes, read by kernels."""
    model = model_of(dtype)
    there = copy.deepcopy(model).to(device)
    for each in (model, there):
        ao.quantize_(each, WEIGHTS[name])
    moved = copy.deepcopy(model).to(device)
    bias, stored = model[0].bias, model[0].weight
    weight = stored.dequantize() if name.startswith(("int4", "asym")) else stored.dequantize(torch.float32)
    if dtype == torch.float32:
        torch.testing.assert_close(there[0].weight.dequantize().cpu(), stored.dequantize(), rtol=1e-6, atol=1e-7)
    for size in SIZES:
        x = torch.randn(size).to(dtype)
        assert_product(moved(x.to(device)), x, weight, bias)
    assert len(kernels) == len(SIZES) and there[0].weight.device.type == "ocl"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_inputs(device, no_fallback, kernels, name, dtype):
    model = model_of(dtype)
    ao.quantize_(model, ROUNDED[name])
    moved = copy.deepcopy(model).to(device)
    for size in SIZES:
        x = torch.randn(size).to(dtype)
        expected, actual = model(x), moved(x.to(device))
        assert actual.device.type == "ocl" and actual.dtype == dtype
        # A rounding that falls the other way is a step of an input, of which there are 255.
        bound = 4 * torch.finfo(dtype).eps * 256**0.5 + 3 / 255 * model[0].weight.dequantize().abs().max().item()
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=bound)
    assert len(kernels) == len(SIZES)


def packings():
    from torchao.quantization.quantize_.workflows import Int4PackingFormat

    return [Int4PackingFormat.PLAIN, Int4PackingFormat.PLAIN_INT32, Int4PackingFormat.TILE_PACKED_TO_4D]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("packing", packings(), ids=str)
@pytest.mark.parametrize("group", [32, 128])
def test_int4(device, no_fallback, packing, group, dtype):
    model = model_of(dtype, n=44)
    moved = copy.deepcopy(model).to(device)
    config = ao.Int4WeightOnlyConfig(group_size=group, int4_packing_format=packing)
    if packing == packings()[2] and dtype != torch.bfloat16:
        with pytest.raises(NotImplementedError, match="only bfloat16"):
            ao.quantize_(moved, config)
        return
    ao.quantize_(moved, config)
    assert moved[0].weight.qdata.numel() * moved[0].weight.qdata.element_size() <= 48 * max(256, 4 * 256) // 2
    eye = torch.eye(256, dtype=dtype, device=device)
    weight = (moved(eye) - moved[0].bias).T.cpu().float()
    original = model[0].weight.float()
    step = original.unflatten(1, (-1, group)).aminmax(dim=-1)
    step = ((step.max - step.min) / 15).repeat_interleave(group, 1)
    # Half a step, and what rounding scale and offset to 16 bits and taking off the bias add.
    assert (
        (weight - original).abs() <= step * (0.5 + 16 * torch.finfo(dtype).eps) + 4 * torch.finfo(dtype).eps / 16
    ).all()
    for size in SIZES:
        x = torch.randn(size).to(dtype)
        actual = moved(x.to(device))
        assert actual.device.type == "ocl" and actual.dtype == dtype and actual.shape == (*size[:-1], 44)
        expected = x.double() @ weight.double().T + model[0].bias.double()
        lost = (actual.cpu().double() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        assert lost < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", ["int8", "float8"])
def test_rows_without_kernels(device, no_fallback, kernels, name):
    """Rows that are no multiple of 32 go torchao's way."""
    model = model_of(torch.float32, k=40)
    ao.quantize_(model, WEIGHTS[name])
    x = torch.randn(3, 40)
    actual = copy.deepcopy(model).to(device)(x.to(device))
    assert_product(actual, x, model[0].weight.dequantize(), model[0].bias)
    assert not kernels


@pytest.mark.parametrize("name", ["int8", "float8", "int4 in bytes"])
def test_gradients_of_inputs(device, no_fallback, name):
    model = model_of(torch.float32)
    ao.quantize_(model, WEIGHTS[name])
    moved = copy.deepcopy(model).to(device)
    x, grad = torch.randn(3, 256), torch.randn(3, 48)
    there = x.to(device).requires_grad_()
    moved(there).backward(grad.to(device))
    expected = grad @ model[0].weight.dequantize()
    torch.testing.assert_close(there.grad.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_inputs_of_int4(device, no_fallback):
    moved = model_of(torch.float32).to(device)
    ao.quantize_(moved, ao.Int4WeightOnlyConfig(group_size=32))
    weight = (moved(torch.eye(256, device=device)) - moved[0].bias).T.cpu()
    x, grad = torch.randn(3, 256, device=device, requires_grad=True), torch.randn(3, 48)
    result = moved(x)
    result.backward(grad.to(device))
    torch.testing.assert_close(result.detach(), moved(x.detach()), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad.cpu(), grad @ weight, rtol=1e-5, atol=1e-5)


def test_wrong_arguments(device):
    def quantised(*sizes, **options):
        layer = nn.Sequential(nn.Linear(*sizes)).to(device=device, dtype=torch.bfloat16)
        return ao.quantize_(layer, ao.Int4WeightOnlyConfig(**options))

    with pytest.raises(ValueError, match="multiples of 32"):
        quantised(64, 8, group_size=16)
    with pytest.raises(NotImplementedError, match="expected a matrix"):
        _torchao._plain(torch.zeros(2, 8, 64, device=device), [1, 1, 32])
    with pytest.raises(NotImplementedError, match=r"float8|HQQ"):
        _torchao._plain(torch.zeros(8, 64, device=device), [1, 32], activation_dtype=torch.float8_e4m3fn)


@pytest.mark.parametrize("config", [WEIGHTS["int8"], ao.Int4WeightOnlyConfig(group_size=32)], ids=["int8", "int4"])
def test_transformers(device, tmp_path, config):
    """A model that is quantised while it is loaded."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    made = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**sizes, vocab_size=128, initializer_range=0.2, eos_token_id=None, pad_token_id=0)
    ).eval()
    made.save_pretrained(tmp_path)
    moved = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=transformers.TorchAoConfig(config), device_map=device, dtype=torch.float32
    )
    assert moved.model.layers[0].mlp.up_proj.weight.device.type == "ocl"
    plain = copy.deepcopy(made)
    for name, module in moved.named_modules():
        if isinstance(module, nn.Linear) and hasattr(module.weight, "qdata"):
            with torch.no_grad():
                numbers = module(torch.eye(module.in_features, device=device)).T.cpu()
            plain.get_submodule(name).weight.data = numbers
    ids = torch.arange(1, 9).unsqueeze(0)
    options = dict(max_new_tokens=16, do_sample=False)
    with torch.no_grad(), without_fallback():
        tokens = moved.generate(ids.to(device), **options)
        logits = moved(ids.to(device)).logits
    assert logits.device.type == "ocl"
    expected = plain(ids).logits.detach()
    torch.testing.assert_close(logits.cpu(), expected, rtol=2e-4, atol=2e-4 * expected.abs().max().item())
    assert torch.equal(tokens.cpu(), plain.generate(ids, **options)) and not torch.equal(expected, made(ids).logits)
