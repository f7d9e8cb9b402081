"""transformers' own `generate` on the device: the tokens of the CPU, by every way of decoding."""

import copy
import subprocess
import sys

import pytest
import torch

from conftest import ROOT, without_fallback

transformers = pytest.importorskip("transformers")

VOCABULARY = 128
FAMILIES = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2},
    "gpt2": {},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 16},
    "gemma": {"num_key_value_heads": 1, "head_dim": 32},
}


def model_of(family, seed=0, layers=2):
    """Random weights of float32, and so large that the likeliest token is far ahead."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": layers, "num_attention_heads": 4}
    if family == "gpt2":
        sizes = {"n_embd": 64, "n_inner": 96, "n_layer": layers, "n_head": 4, "n_positions": 256}
    config = transformers.AutoConfig.for_model(
        family,
        **{**sizes, **FAMILIES[family], "vocab_size": VOCABULARY, "initializer_range": 0.2},
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def pair_of(family, **options):
    model = model_of(family, **options)
    return model, copy.deepcopy(model).to("ocl")


def ids_of(*sizes, seed=1):
    return torch.randint(1, VOCABULARY, sizes, generator=torch.Generator().manual_seed(seed))


def assert_same(model, moved, ids, *, fallback_allowed=False, **options):
    options = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": 0, **options}
    mask = options.pop("attention_mask", torch.ones_like(ids))
    there = {key: value[1] if isinstance(value, tuple) else value for key, value in options.items()}
    here = {key: value[0] if isinstance(value, tuple) else value for key, value in options.items()}
    expected = model.generate(ids, attention_mask=mask, **here)
    with without_fallback():
        actual = moved.generate(ids.to("ocl"), attention_mask=mask.to("ocl"), **there)
    assert actual.device.type == "ocl"
    assert expected.shape[1] > ids.shape[1] + 10 and torch.equal(actual.cpu(), expected)
    return expected


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy(device, family):
    assert_same(*pair_of(family), ids_of(1, 7), max_new_tokens=40 if family == "llama" else 16)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_of_two_hundred_tokens(device, family):
    """Every token feeds the next one, so that a single wrong one changes all that follow."""
    options = {"max_new_tokens": 200, "min_new_tokens": 200}
    model, moved = pair_of(family, layers=3)
    assert assert_same(model, moved, ids_of(1, 9, seed=3), **options).unique().numel() > 20


def test_static_cache(device):
    assert_same(*pair_of("llama"), ids_of(2, 7), cache_implementation="static", disable_compile=True)


def test_beam_search(device):
    assert_same(*pair_of("llama"), ids_of(2, 7), num_beams=3)


def test_unequal_lengths(device):
    ids = ids_of(3, 9)
    mask = torch.ones_like(ids)
    ids[0, :4], mask[0, :4], ids[2, :1], mask[2, :1] = 0, 0, 0, 0
    assert_same(*pair_of("qwen2"), ids, attention_mask=mask)


def test_assisted(device):
    assistants = pair_of("llama", layers=1)
    assert_same(*pair_of("llama"), ids_of(1, 7), assistant_model=assistants)


def test_prompt_lookup(device):
    ids = ids_of(1, 6).repeat(1, 4)
    assert_same(*pair_of("llama"), ids, prompt_lookup_num_tokens=3)


def test_sampling_is_repeatable(device):
    moved = pair_of("llama")[1]
    runs = []
    for _ in range(2):
        torch.manual_seed(5)
        runs.append(moved.generate(ids_of(2, 7).to("ocl"), max_new_tokens=20, do_sample=True, top_k=20, top_p=0.9))
    assert torch.equal(*runs) and not torch.equal(runs[0][0], runs[0][1])


PROMPTS = [[5, 6, 7, 8], [9, 10, 11], [3] * 10]


def batched(model, **options):
    """generate_batch of the prompts: the new tokens of each."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    out = model.generate_batch(
        PROMPTS,
        generation_config=GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=-1, pad_token_id=0),
        continuous_batching_config=ContinuousBatchingConfig(max_batch_tokens=64, **options),
        progress_bar=False,
    )
    return [out[name].generated_tokens for name in sorted(out)]


def test_continuous_batching(device, no_fallback):
    pytest.importorskip("transformers.generation.continuous_batching")
    model, moved = pair_of("llama")
    expected = []
    for prompt in PROMPTS:
        out = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, pad_token_id=0)
        expected.append(out[0, len(prompt) :].tolist())
    assert batched(moved, num_blocks=16) == expected


def test_memory_of_continuous_batching(device):
    utils = pytest.importorskip("transformers.generation.continuous_batching.utils")
    free, total = torch.ocl.mem_get_info()
    place, said, reserved, allocated = utils.get_device_and_memory_breakdown()
    assert place.type == "ocl" and said == total and 0 < total - max(reserved, allocated) <= free
    moved = pair_of("llama")[1]
    torch.ocl.empty_cache()
    limit = torch.ocl.memory_reserved() + (64 << 20)
    torch.ocl.memory.memory_usage_limit(limit)
    try:
        said = utils.get_device_and_memory_breakdown()[1:]
        assert said[0] == limit and said[0] - max(said[1:]) <= 64 << 20
        assert len(batched(moved, max_memory_percent=0.5)) == len(PROMPTS)
    finally:
        torch.ocl.memory.memory_usage_limit(0)


CHAT = ROOT / "examples" / "chat.py"
WORDS = ["<unk>", "<end>", "hello", "again", "one", "two", "three", "four", "five", "six", "seven", "eight"]


def chat(path, *options):
    done = subprocess.run([sys.executable, str(CHAT), str(path), *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_chat_with_a_folder(device, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", pad_token="<unk>"
    ).save_pretrained(tmp_path)
    model_of("llama").save_pretrained(tmp_path)
    options = ["--tokens", "6", "--dtype", "float32", "--quantize", "int8"]
    done = chat(tmp_path, "--say", "hello two", "--say", "again", *options)
    assert done.stderr.count("tokens, the first after") == 2


def test_chat_refuses(tmp_path):
    done = subprocess.run([sys.executable, str(CHAT), str(tmp_path / "absent")], capture_output=True, text=True)
    assert done.returncode == 2 and "does not exist" in done.stderr
