"""Talks with a language model, word by word: `python examples/chat.py FOLDER-OR-GGUF-FILE`.

FOLDER is what transformers' `save_pretrained` writes (the model and its tokenizer); a GGUF file is kept quantised as it
lies on the disk. `--quantize int8` (int4, ...) quantises a folder's model. Needs transformers.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch

import torch_ocl
from torch_ocl import gguf


def load(path: Path, dtype: torch.dtype, quantize: str | None) -> tuple[Any, Any]:
    """Model on the device and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if path.is_file():
        return gguf.load(path, dtype=dtype), gguf.tokenizer(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
    model = torch_ocl.optimize(model)
    if quantize:
        torch_ocl.quantize_(model, quantize, modules=lambda name, layer: name != "lm_head")
    return model.to("ocl"), AutoTokenizer.from_pretrained(path)


def prompt_of(tokenizer: Any, history: list[dict[str, str]]) -> torch.Tensor:
    """The conversation as tokens [1, n]: in the model's own form where it has one, plain text otherwise."""
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(history, add_generation_prompt=True, tokenize=False)
        tokens: torch.Tensor = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    else:
        tokens = tokenizer("\n".join(message["content"] for message in history), return_tensors="pt").input_ids
    return tokens


def answer(model: Any, tokenizer: Any, history: list[dict[str, str]], options: argparse.Namespace) -> str:
    """Prints the answer while it is made, and how quickly that was. Returns it."""
    from transformers import TextStreamer

    class Words(TextStreamer):
        """Prints words, and keeps them and the time of the first token."""

        said, first = "", 0.0

        def put(self, value: torch.Tensor) -> None:
            """Tokens; the prompt comes first."""
            if not self.next_tokens_are_prompt and not self.first:
                self.first = time.perf_counter()
            super().put(value)

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            """Whole words."""
            self.said += text
            print(text, end="\n" if stream_end else "", flush=True)

    words = Words(tokenizer, skip_prompt=True, skip_special_tokens=True)
    ids = prompt_of(tokenizer, history).to(model.device)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    sampling: dict[str, Any] = {"do_sample": False}
    if options.temperature > 0:
        sampling = {"do_sample": True, "temperature": options.temperature}
    start = time.perf_counter()
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=options.tokens,
        pad_token_id=pad,
        streamer=words,
        **sampling,
    )
    end, count = time.perf_counter(), out.shape[1] - ids.shape[1]
    rate = f", {(count - 1) / (end - words.first):.1f} tokens/s" if count > 1 else ""
    print(f"[{count} tokens, the first after {words.first - start:.2f} s{rate}]", file=sys.stderr)
    return words.said


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a folder of transformers or a GGUF file")
    parser.add_argument("--say", action="append", help="what to say, instead of asking; may be given again")
    parser.add_argument("--tokens", type=int, default=256, help="of an answer at most")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: always the likeliest word")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--quantize", help="int8, int4, ...: for a folder's model")
    options = parser.parse_args()
    if not options.model.exists():
        parser.error(f"{options.model} does not exist")
    model, tokenizer = load(options.model, getattr(torch, options.dtype), options.quantize)
    history: list[dict[str, str]] = []
    said = iter(options.say or [])
    while True:
        try:
            text = next(said, None) if options.say else input("> ")
        except (EOFError, KeyboardInterrupt):
            break
        if not text:
            break
        history.append({"role": "user", "content": text})
        history.append({"role": "assistant", "content": answer(model, tokenizer, history, options)})


if __name__ == "__main__":
    main()
