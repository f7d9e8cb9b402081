"""from_pretrained(gguf_file=...) of transformers with weights that stay in the file's blocks."""

import pytest
import torch
from test_gguf import HEADS, HIDDEN, INNER, KEY_HEADS, LAYERS, VOCABULARY, metadata_of, model_of, rows_of, save

import gguf_files
from conftest import without_fallback
from torch_ocl.gguf import _blocks, _pretrained

transformers = pytest.importorskip("transformers")
if not hasattr(transformers, "GgufConfig"):
    pytest.skip("this version of transformers always dequantises", allow_module_level=True)

FAMILIES = {
    "llama": {"vocab_size": VOCABULARY, "rope.dimension_count": HIDDEN // HEADS},
    "qwen2": {"vocab_size": VOCABULARY},
    "qwen3": {"vocab_size": VOCABULARY, "attention.key_length": 128},
}


def written(folder, family, **options):
    """A model, and a file of it in the folder. transformers needs the package gguf for most architectures."""
    pytest.importorskip("gguf")
    model = model_of(family, **({"head_dim": 128} if family == "qwen3" else {}))
    save(folder / "m.gguf", model, metadata_of(family, **FAMILIES[family]), interleaved=family == "llama", **options)
    return model


def loaded(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="m.gguf", **{"dtype": torch.float32, **options}
    )


def types_of(model):
    return {module.ggml_type for module in model.modules() if hasattr(module, "ggml_type")}


def assert_same_tokens(model, moved, rtol=2e-4):
    """Logits and greedy tokens of a prompt (a product of matrices) and of what follows (products with vectors)."""
    ids = torch.arange(1, 20).unsqueeze(0)
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad(), without_fallback():
        actual = moved(ids.to("ocl")).logits
        tokens = moved.generate(ids[:, :5].to("ocl"), **options)
    assert actual.device.type == "ocl" and actual.dtype == torch.float32
    expected = model(ids).logits.detach()
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=rtol * expected.abs().max().item())
    assert torch.equal(tokens.cpu(), model.generate(ids[:, :5], **options))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_device_map_keeps_blocks(device, tmp_path, family):
    model = written(tmp_path, family)
    moved = loaded(tmp_path, device_map=device)
    assert types_of(moved) == {2, 8, 12, 14} and moved.model.embed_tokens.weight.dtype == torch.uint8
    assert_same_tokens(model, moved)
    dense = loaded(tmp_path)
    assert types_of(dense) == set()
    assert_same_tokens(dense, moved)


def test_gpt2_with_a_tied_embedding(device, tmp_path):
    pytest.importorskip("gguf")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, eos_token_id=95, bos_token_id=None
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    metadata = {**metadata_of("gpt2"), "tokenizer.ggml.tokens": [str(i) for i in range(VOCABULARY)]}
    save(tmp_path / "m.gguf", model, metadata, forms=["q6_k"], leave_out=["output.weight"])
    moved = loaded(tmp_path, device_map=device)
    assert types_of(moved) == {14} and moved.transformer.h[0].mlp.c_fc.weight.dtype == torch.uint8
    assert moved.lm_head.weight.data_ptr() == moved.transformer.wte.weight.data_ptr()
    assert_same_tokens(model, moved)


def test_a_configuration_asks_for_blocks(device, tmp_path):
    """Without a device map: on the CPU, and moved later."""
    model = written(tmp_path, "qwen2")
    moved = loaded(tmp_path, quantization_config=transformers.GgufConfig())
    ids = torch.arange(1, 20).unsqueeze(0)
    torch.testing.assert_close(moved(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)
    assert types_of(moved) == {2, 8, 12, 14} and moved.lm_head.weight.device.type == "cpu"
    assert_same_tokens(model, moved.to(device))


def test_a_configuration_asks_for_numbers(device, tmp_path):
    model = written(tmp_path, "qwen2")
    config = transformers.GgufConfig(dequantize=True)
    moved = loaded(tmp_path, device_map=device, quantization_config=config)
    assert types_of(moved) == set() and moved.lm_head.weight.dtype == torch.float32
    assert_same_tokens(model, moved)


def test_other_types_become_q8_0(device, tmp_path):
    model = written(tmp_path, "qwen2", forms=["q5_k"])
    moved = loaded(tmp_path, device_map=device)
    assert types_of(moved) == {8}
    ids = torch.arange(1, 20).unsqueeze(0)
    with torch.no_grad():
        expected, actual = model(ids).logits, moved(ids.to(device)).logits.cpu()
    assert (actual - expected).square().mean().sqrt() < 0.03 * expected.square().mean().sqrt()


def test_half_precision(device, tmp_path):
    """Everything but the blocks is of the dtype asked for, with the dense model's results."""
    model = written(tmp_path, "qwen2")
    moved = loaded(tmp_path, device_map=device, dtype=torch.bfloat16)
    assert moved.model.norm.weight.dtype == torch.bfloat16 and types_of(moved) == {2, 8, 12, 14}
    ids = torch.arange(1, 20).unsqueeze(0)
    with torch.no_grad(), without_fallback():
        actual = moved(ids.to(device)).logits
        one = moved(ids[:, :1].to(device)).logits
    assert actual.dtype == one.dtype == torch.bfloat16
    expected = model(ids).logits.detach()
    scale = expected.square().mean().sqrt()
    assert (actual.float().cpu() - expected).square().mean().sqrt() < 0.05 * scale
    assert (one.float().cpu() - expected[:, :1]).square().mean().sqrt() < 0.05 * scale


def test_memory(device, tmp_path):
    """The device holds blocks, not numbers."""
    written(tmp_path, "qwen2", forms=["q4_0"])
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated()
    moved = loaded(tmp_path, device_map=device)
    torch.ocl.synchronize()
    assert types_of(moved) == {2}
    size = (tmp_path / "m.gguf").stat().st_size
    assert torch.ocl.memory_allocated() - before <= 1.1 * size + 64 * 512  # a tensor's memory is rounded up


def test_a_model_without_a_head_is_dequantised(device, tmp_path):
    written(tmp_path, "qwen2")
    moved = transformers.AutoModel.from_pretrained(tmp_path, gguf_file="m.gguf", device_map=device)
    assert types_of(moved) == set() and moved.embed_tokens.weight.is_floating_point()


LFM2 = {
    "model.embed_tokens": "token_embd",
    "model.embedding_norm": "token_embd_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "operator_norm": "attn_norm",
    "q_layernorm": "attn_q_norm",
    "k_layernorm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "conv.conv.": "shortconv.conv.",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
}


def test_an_architecture_that_transformers_keeps_in_blocks(device, tmp_path):
    """Where it finds a kernel, which is the one here."""
    config = transformers.AutoConfig.for_model(
        "lfm2",
        **dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2),
        **dict(num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, layer_types=["conv", "full_attention"]),
        **dict(block_auto_adjust_ff_dim=False, tie_word_embeddings=False, pad_token_id=None, conv_L_cache=3),
        **dict(rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, eos_token_id=95, bos_token_id=None),
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    metadata = metadata_of("lfm2", **{"attention.head_count_kv": [0, KEY_HEADS], "shortconv.l_cache": 3})
    metadata["tokenizer.ggml.tokens"] = [str(i) for i in range(VOCABULARY)]
    tensors = {}
    for turn, (name, parameter) in enumerate(model.state_dict().items()):
        stored = name
        for ours, theirs in LFM2.items():
            stored = stored.replace(ours, theirs)
        kept = parameter.squeeze(1) if parameter.dim() == 3 else parameter
        form = "f32" if kept.dim() == 1 or "conv.conv" in name else ["q8_0", "q4_0", "q4_k", "q6_k"][turn % 4]
        rows, value = rows_of(kept.view(1, -1) if kept.dim() == 1 else kept, form, turn)
        tensors[stored] = (tuple(kept.shape), form, rows)
        parameter.copy_(value.view(parameter.shape))
    gguf_files.write(tmp_path / "m.gguf", metadata, tensors)
    moved = loaded(tmp_path, device_map=device)
    assert types_of(moved) == {2, 8, 12, 14} and moved.lm_head.weight.dtype == torch.uint8
    assert_same_tokens(model, moved)
    assert types_of(loaded(tmp_path)) == set(), "the kernel stays out of models for the CPU"
    config = transformers.GgufConfig()
    assert types_of(loaded(tmp_path, quantization_config=config)) == {2, 8, 12, 14}


@pytest.mark.parametrize("place", ["ocl", "cpu"])
@pytest.mark.parametrize("form", ["q8_0", "q6_k", "q5_k"])
def test_kernel(device, place, form):
    """What transformers calls of it, experts included; types that no kernel reads are dequantised."""
    number = next(number for number, type_ in _blocks.TYPES.items() if type_.name == form)
    kernel = _pretrained.Kernel()
    assert kernel.supports(number) == (form != "q5_k")
    experts = torch.stack([torch.from_numpy(gguf_files.random_rows(24, 512, form, seed=i)) for i in range(3)])
    weights = torch.stack([torch.from_numpy(gguf_files.decode(e.numpy(), form)) for e in experts])
    x = torch.randn(5, 512)
    ids = torch.tensor([[0, 2], [2, 2], [0, 2], [2, 0], [0, 0]], dtype=torch.int32)
    experts, there, chosen = experts.to(place), x.to(place), ids.to(place)
    expected = torch.einsum("tk,tnrk->tnr", x.double(), weights[ids.long()])
    bound = dict(rtol=0, atol=64 * torch.finfo(torch.float32).eps * 512**0.5 * expected.abs().max().item())
    with without_fallback():
        products = kernel.mul_mat_id(experts, there, chosen, number, 24)
        product = kernel.mul_mat_vec(experts[1], there, number, 24)
        rows = kernel.get_rows(experts[1], chosen.flatten().long(), number, 512, torch.float32)
    assert products.device.type == product.device.type == rows.device.type == place
    torch.testing.assert_close(products.cpu().double(), expected, **bound)
    torch.testing.assert_close(product.cpu().double(), x.double() @ weights[1].T, **bound)
    torch.testing.assert_close(rows.cpu().double(), weights[1][ids.flatten().long()], rtol=1e-5, atol=1e-6)
