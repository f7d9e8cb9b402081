"""torch_ocl.gguf: files written here, read, and models whose weights stay in their blocks."""

import pytest
import torch

import gguf_files
from conftest import without_fallback
from torch_ocl import gguf
from torch_ocl.gguf import _blocks

transformers = pytest.importorskip("transformers")

VOCABULARY, HIDDEN, INNER, LAYERS, HEADS, KEY_HEADS = 96, 256, 512, 2, 4, 2


def metadata_of(architecture, **more):
    sizes = {
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KEY_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.layer_norm_epsilon": 1e-5,
        "context_length": 128,
        "rope.freq_base": 5000.0,
        **more,
    }
    keys = {f"{architecture}.{name}": value for name, value in sizes.items()}
    return {"general.architecture": architecture, "tokenizer.ggml.eos_token_id": 95, **keys}


def model_of(model_type, **more):
    torch.manual_seed(0)
    sizes = {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
        "rope_theta": 5000.0,
        "eos_token_id": 95,
        "bos_token_id": None,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    config = transformers.AutoConfig.for_model(model_type, **{**sizes, **more})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) / 10)
    return model


NAMES = [
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("input_layernorm", "attn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("transformer.wte", "token_embd"),
    ("transformer.wpe", "position_embd"),
    ("transformer.ln_f", "output_norm"),
    ("transformer.h.", "blk."),
    ("attn.c_attn", "attn_qkv"),
    ("attn.c_proj", "attn_output"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.c_proj", "ffn_down"),
    ("ln_1", "attn_norm"),
    ("ln_2", "ffn_norm"),
]


def stored_name(name):
    for ours, theirs in NAMES:
        name = name.replace(ours, theirs)
    return name


def halves_to_pairs(weight, heads):
    """As llama.cpp's converter stores rows of queries and keys."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).reshape(weight.shape)


FORMS = ["q8_0", "q4_0", "q4_k", "q6_k", "f16"]


def rows_of(weight, form, seed):
    """Rows of a file, and what they stand for. For blocks of 256 there are any codes, of small scales."""
    if not form.endswith("_k"):
        rows = gguf_files.encode(weight.reshape(weight.shape[0], -1).numpy(), form)
        return rows, _blocks.dequantize(torch.from_numpy(rows), form).view(weight.shape)
    rows = gguf_files.random_rows(*weight.shape, form, seed=seed)
    blocks = rows.reshape(-1, gguf_files.BLOCKS[form][1])
    for at in [208] if form == "q6_k" else [0, 2]:
        blocks[:, at : at + 2] = (blocks[:, at : at + 2].copy().view("float16") / 8).view("uint8")
    return rows, _blocks.dequantize(torch.from_numpy(rows), form)


def save(path, model, metadata, *, interleaved=False, forms=FORMS, leave_out=()):
    """Writes the model, and gives it the weights that the file stands for."""
    tensors = {}
    for turn, (name, parameter) in enumerate(model.state_dict().items()):
        stored = stored_name(name)
        if stored in leave_out:
            continue
        turned = ".c_" in name and name.endswith("weight")  # GPT-2's layers are [in, out]
        weight = (parameter.t() if turned else parameter).contiguous()
        if weight.dim() == 1:
            tensors[stored] = (tuple(weight.shape), "f32", gguf_files.encode(weight.view(1, -1).numpy(), "f32"))
            continue
        heads = HEADS if ".attn_q." in stored else KEY_HEADS if ".attn_k." in stored else None
        pairs = interleaved and heads is not None
        form = forms[turn % len(forms)]
        rows, value = rows_of(halves_to_pairs(weight, heads) if pairs else weight, form, turn)
        tensors[stored] = (tuple(weight.shape), form, rows)
        if pairs:
            value = value.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(value.shape)
        parameter.copy_(value.t() if turned else value)
    gguf_files.write(path, metadata, tensors)


def assert_same_tokens(model, loaded, rtol=2e-4):
    ids = torch.arange(1, 20).unsqueeze(0) % VOCABULARY
    with torch.no_grad():
        expected = model(ids).logits
        with without_fallback():
            actual = loaded(ids.to("ocl")).logits
    assert actual.device.type == "ocl" and actual.dtype == torch.float32
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=rtol * expected.abs().max().item())
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    tokens = model.generate(ids[:, :5], **options)
    assert torch.equal(loaded.generate(ids[:, :5].to("ocl"), **options).cpu(), tokens)


def formats_of(model):
    return {module.format for module in model.modules() if hasattr(module, "format")}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "phi3"])
def test_decoders(device, tmp_path, model_type):
    model = model_of(model_type)
    path = tmp_path / "model.gguf"
    metadata = metadata_of(model_type, **{"attention.key_length": HIDDEN // HEADS})
    save(path, model, metadata, interleaved=model_type == "llama")
    loaded = gguf.load(path, dtype=torch.float32)
    assert formats_of(loaded) == {"q8_0", "q4_0", "q4_k", "q6_k"}
    assert loaded.generation_config.eos_token_id == 95
    assert_same_tokens(model, loaded)


@pytest.mark.parametrize("form", ["q6_k", "f16"])
def test_gpt2_with_a_tied_embedding(device, tmp_path, form):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 128, "n_embd": HIDDEN, "n_layer": LAYERS, "n_inner": INNER}
    config = transformers.GPT2Config(**sizes, n_head=HEADS, eos_token_id=95, bos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).eval()
    path = tmp_path / "model.gguf"
    save(path, model, metadata_of("gpt2"), forms=[form], leave_out=["output.weight"])
    loaded = gguf.load(path, dtype=torch.float32)
    if form == "f16":
        assert loaded.lm_head.weight is loaded.transformer.wte.weight
    else:
        assert loaded.lm_head.codes.data_ptr() == loaded.transformer.wte.codes.data_ptr()
    assert_same_tokens(model, loaded)


def test_other_types_become_q8_0(device, tmp_path):
    model = model_of("qwen2")
    path = tmp_path / "model.gguf"
    save(path, model, metadata_of("qwen2"), forms=["q5_k"])
    loaded = gguf.load(path, dtype=torch.float32)
    assert formats_of(loaded) == {"q8_0"}
    ids = torch.arange(1, 20).unsqueeze(0)
    with torch.no_grad():
        expected, actual = model(ids).logits, loaded(ids.to(device)).logits.cpu()
    lost = (actual - expected).square().mean().sqrt() / expected.square().mean().sqrt()
    assert lost < 0.03


def test_memory(device, tmp_path):
    """The device never holds more than 1.1 times the file."""
    model = model_of("qwen2", hidden_size=1024, intermediate_size=2048, head_dim=256)
    path = tmp_path / "model.gguf"
    save(path, model, metadata_of("qwen2", embedding_length=1024, feed_forward_length=2048), forms=["q4_0"])
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    loaded = gguf.load(path)
    assert formats_of(loaded) == {"q4_0"}
    assert torch.ocl.max_memory_allocated() - before <= 1.1 * path.stat().st_size


def test_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    path = tmp_path / "model.gguf"
    tokens = [chr(c) for c in range(33, 127)] + ["<end>", "he", "\u0120", "hel"]
    kinds = [3 if token == "<end>" else 1 for token in tokens]
    words = {"model": "gpt2", "tokens": tokens, "token_type": kinds, "merges": ["h e", "he l"], "eos_token_id": 94}
    metadata = {"general.architecture": "gpt2", **{f"tokenizer.ggml.{key}": value for key, value in words.items()}}
    gguf_files.write(path, metadata, {"some.weight": ((1, 256), "q4_k", gguf_files.random_rows(1, 256, "q4_k"))})
    try:
        tokenizer = gguf.tokenizer(path)
    except ImportError as error:  # older versions of transformers read files by the package gguf
        pytest.skip(str(error))
    ids = tokenizer("hello", add_special_tokens=False).input_ids
    assert [tokens[i] for i in ids] == ["hel", "l", "o"] and tokenizer.decode(ids) == "hello"


def test_metadata(tmp_path):
    path = tmp_path / "model.gguf"
    words = {"text": "süß", "list": ["a", "bc"], "numbers": [1, 2, 3], "floats": [0.5], "yes": True, "one": 0.25}
    rows = gguf_files.random_rows(3, 512, "q4_k")
    gguf_files.write(path, {"general.architecture": "llama", **words}, {"some.weight": ((3, 512), "q4_k", rows)})
    file = gguf.File(path)
    assert file.architecture == "llama" and {key: file.metadata[key] for key in words} == words
    tensor = file.tensors["some.weight"]
    assert tensor.shape == (3, 512) and tensor.type.name == "q4_k" and torch.equal(tensor.data, torch.from_numpy(rows))


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "model.gguf"
    rows = gguf_files.random_rows(3, 512, "q4_k")
    gguf_files.write(path, {"general.architecture": "unheard"}, {"some.weight": ((3, 512), "q4_k", rows)})
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="architecture 'unheard'; supported are llama"):
        gguf.load(path)
    for size in range(0, len(whole) - 40, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"GGUF|truncated"):
            gguf.File(path)
    path.write_bytes(whole[:4] + b"\x09" + whole[5:])
    with pytest.raises(ValueError, match="GGUF version 9"):
        gguf.File(path)
    with pytest.raises(OSError, match="No such file"):
        gguf.File(tmp_path / "absent.gguf")
    gguf_files.write(path, {"general.architecture": "qwen2"}, {"some.weight": ((3, 512), "q4_k", rows)})
    with pytest.raises(ValueError, match=r"lacks qwen2\.embedding_length|lacks token_embd"):
        gguf.load(path)
    model = model_of("qwen2")
    save(path, model, metadata_of("qwen2"), leave_out=["blk.1.ffn_up.weight"])
    with pytest.raises(ValueError, match=r"no weights for model\.layers\.1\.mlp\.up_proj"):
        gguf.load(path)
