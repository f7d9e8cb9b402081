"""Tokens per second of a language model with random weights: `python -m benchmarks.language`.

Rows take turns, so that all meet the same disturbances, and the quickest round counts. `native` is PyTorch on the CPU,
`ocl` the same model on the device, `optimized` after torch_ocl.optimize, `int8` and `int4` after torch_ocl.quantize_ as
well. The fraction of the read bandwidth is (bytes of weights) / (time of a token) / (the best rate at which the device
sums a large tensor). Needs transformers; --gguf FILE adds llama.cpp (llama-cpp-python) with a model of one's own.
"""

import argparse
import copy
import gc
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import torch_ocl

# hidden size, inner size, layers, heads, key heads, vocabulary
MODELS = {
    "tiny": (64, 160, 2, 4, 2, 256),
    "135m": (576, 1536, 30, 9, 3, 49152),
    "1b": (2048, 5632, 22, 32, 4, 32000),
}
VARIANTS = ("native", "ocl", "optimized", "int8", "int4")


@dataclass
class Row:
    """A variant: how to run it, and the quickest times in seconds."""

    name: str
    prefill: Callable[[int], Any]  # of so many tokens; what decode continues from
    decode: Callable[[Any, int], None]  # so many tokens
    bytes: int  # of the weights
    prefill_s: float = field(default=float("inf"))
    token_s: float = field(default=float("inf"))


def llama(name: str, dtype: torch.dtype) -> nn.Module:
    """A Llama of random weights, in evaluation mode on the CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    hidden, inner, layers, heads, key_heads, vocabulary = MODELS[name]
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )
    model: nn.Module = LlamaForCausalLM(config).to(dtype).eval()
    return model


def row_of(name: str, model: nn.Module, device: str) -> Row:
    """Prefill and greedy decoding by a loop of our own."""
    sizes = [t.numel() * t.element_size() for n, t in [*model.named_parameters(), *model.named_buffers()]]
    embedding = model.get_input_embeddings().weight  # type: ignore[operator]

    @torch.inference_mode()
    def prefill(tokens: int) -> tuple[Any, torch.Tensor]:
        ids = torch.arange(tokens, device=device).unsqueeze(0) % embedding.shape[0]
        out = model(ids, use_cache=True, logits_to_keep=1)
        return out.past_key_values, out.logits.argmax(-1)

    @torch.inference_mode()
    def decode(state: tuple[Any, torch.Tensor], tokens: int) -> None:
        cache, token = state
        for _ in range(tokens):
            token = model(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
            token.item()  # as a program that shows each word

    return Row(name, prefill, decode, sum(sizes) - embedding.numel() * embedding.element_size())


def llama_cpp_row(path: str) -> Row:
    """The same by llama-cpp-python with a GGUF file."""
    from pathlib import Path

    from llama_cpp import Llama

    model = Llama(model_path=path, n_ctx=4096, n_threads=torch.get_num_threads(), verbose=False)

    def prefill(tokens: int) -> object:
        model.reset()
        model.eval([i % model.n_vocab() for i in range(tokens)])
        return 1

    def decode(state: object, tokens: int) -> None:
        for _ in range(tokens):
            model.eval([model.sample(temp=0.0)])

    return Row(f"llama.cpp {Path(path).name}", prefill, decode, Path(path).stat().st_size)


def rows_of(name: str, dtype: torch.dtype, variants: list[str]) -> list[Row]:
    """A row for each variant, of the same weights."""
    rows = []
    model = llama(name, dtype)
    if "native" in variants:
        rows.append(row_of("native", model, "cpu"))
    if "ocl" in variants:
        rows.append(row_of("ocl", copy.deepcopy(model).to("ocl"), "ocl"))
    for variant in variants:
        if variant in ("optimized", "int8", "int4"):
            optimized = torch_ocl.optimize(model)
            if variant != "optimized":
                torch_ocl.quantize_(optimized, variant)
            rows.append(row_of(variant, optimized.to("ocl"), "ocl"))
            gc.collect()
    return rows


def read_bandwidth(rounds: int = 5) -> float:
    """Bytes per second of a sum over a tensor that is larger than the caches."""
    x = torch.ones(64 << 20, device="ocl")
    best = float("inf")
    for _ in range(rounds):
        torch.ocl.synchronize()
        start = time.perf_counter()
        x.sum().item()
        best = min(best, time.perf_counter() - start)
    return x.numel() * 4 / best


def measure(rows: list[Row], rounds: int, prompt: int, tokens: int) -> None:
    """The quickest of `rounds` turns of every row, after one to warm up."""
    for turn in range(rounds + 1):
        for row in rows:
            start = time.perf_counter()
            state = row.prefill(prompt)
            torch.ocl.synchronize()
            prefill_s = time.perf_counter() - start
            row.decode(state, 2)
            for _ in range(4):
                start = time.perf_counter()
                row.decode(state, max(1, tokens // 4))
                if turn:
                    row.token_s = min(row.token_s, (time.perf_counter() - start) / max(1, tokens // 4))
            if turn:
                row.prefill_s = min(row.prefill_s, prefill_s)


def table(rows: list[Row], prompt: int, bandwidth: float) -> str:
    """The results as Markdown."""
    lines = [
        "| | prefill, tokens/s | decode, tokens/s | ms a token | to the first row | of read bandwidth |",
        "|---" * 6 + "|",
    ]
    for row in rows:
        lines.append(
            f"| {row.name} | {prompt / row.prefill_s:.0f} | {1 / row.token_s:.1f} | {row.token_s * 1e3:.2f} "
            f"| {rows[0].token_s / row.token_s:.2f} | {row.bytes / row.token_s / bandwidth:.2f} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="135m")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--gguf", nargs="*", default=[], help="models for llama.cpp")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("transformers") is None:
        parser.error("transformers is not installed: pip install transformers")
    rows = rows_of(options.model, getattr(torch, options.dtype), options.variants)
    rows += [llama_cpp_row(path) for path in options.gguf]
    bandwidth = read_bandwidth()
    measure(rows, options.rounds, options.prompt, options.tokens)
    print(
        f"{options.model}, {options.dtype}, {options.prompt} tokens before, read bandwidth {bandwidth / 1e9:.0f} GB/s\n"
    )
    print(table(rows, options.prompt, bandwidth))


if __name__ == "__main__":
    main()
