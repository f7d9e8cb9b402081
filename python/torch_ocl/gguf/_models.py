"""What GGUF calls models, their sizes and their weights, in the words of transformers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._reader import File

_LLAMA = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_PHI3 = {**_LLAMA, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}


class _Sizes:
    """The sizes of a model, by their names without the architecture."""

    def __init__(self, file: File) -> None:
        self.file = file

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default where the file has none."""
        return self.file.metadata.get(f"{self.file.architecture}.{name}", default)

    def __getitem__(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise ValueError(f"{self.file.path} lacks {self.file.architecture}.{name}")
        return value


def _rope(file: File, sizes: _Sizes) -> dict[str, Any]:
    fields: dict[str, Any] = {"rope_theta": sizes.get("rope.freq_base", 10000.0)}
    kind = sizes.get("rope.scaling.type", "none")
    if any(name.startswith("rope_factors") for name in file.tensors) or kind == "longrope":
        raise ValueError(f"{file.path}: rotary embeddings with long and short factors are not supported")
    if kind in ("linear", "yarn"):
        scaling = {"rope_type": kind, "factor": sizes["rope.scaling.factor"]}
        original = sizes.get("rope.scaling.original_context_length")
        if original is not None and kind == "yarn":
            scaling["original_max_position_embeddings"] = original
        fields["rope_scaling"] = scaling
    return fields


def _decoder(file: File, sizes: _Sizes) -> dict[str, Any]:
    """Sizes that the Llama family shares."""
    hidden, heads = sizes["embedding_length"], sizes["attention.head_count"]
    return {
        "hidden_size": hidden,
        "num_hidden_layers": sizes["block_count"],
        "intermediate_size": sizes["feed_forward_length"],
        "num_attention_heads": heads,
        "num_key_value_heads": sizes.get("attention.head_count_kv", heads),
        "head_dim": sizes.get("attention.key_length", hidden // heads),
        "max_position_embeddings": sizes.get("context_length", 2048),
        "rms_norm_eps": sizes["attention.layer_norm_rms_epsilon"],
        **_rope(file, sizes),
    }


def _llama(file: File, sizes: _Sizes) -> dict[str, Any]:
    if sizes.get("expert_count"):
        raise ValueError(f"{file.path}: mixtures of experts are not supported")
    biases = {"attention_bias": "blk.0.attn_q.bias", "mlp_bias": "blk.0.ffn_up.bias"}
    return {**_decoder(file, sizes), **{field: name in file.tensors for field, name in biases.items()}}


def _phi3(file: File, sizes: _Sizes) -> dict[str, Any]:
    fields = _decoder(file, sizes)
    turned = sizes.get("rope.dimension_count", fields["head_dim"])
    window = sizes.get("attention.sliding_window")
    return {**fields, "partial_rotary_factor": turned / fields.pop("head_dim"), "sliding_window": window}


def _gpt2(file: File, sizes: _Sizes) -> dict[str, Any]:
    return {
        "n_embd": sizes["embedding_length"],
        "n_layer": sizes["block_count"],
        "n_head": sizes["attention.head_count"],
        "n_positions": sizes.get("context_length", 1024),
        "n_inner": sizes.get("feed_forward_length"),
        "layer_norm_epsilon": sizes["attention.layer_norm_epsilon"],
    }


@dataclass(frozen=True)
class Architecture:
    """`model_type` of transformers, `names` of modules, `layers`: where they lie, `fields` of the configuration."""

    model_type: str
    names: Mapping[str, str]
    fields: Callable[[File, _Sizes], dict[str, Any]]
    layers: str = "model.layers"
    interleaved: bool = False  # rows of queries and keys are stored pair by pair of the rotary embedding


ARCHITECTURES = {
    "llama": Architecture("llama", _LLAMA, _llama, interleaved=True),
    "qwen2": Architecture("qwen2", _LLAMA, _decoder),
    "qwen3": Architecture("qwen3", _LLAMA, _decoder),
    "phi3": Architecture("phi3", _PHI3, _phi3),
    "gpt2": Architecture("gpt2", _GPT2, _gpt2, layers="transformer.h"),
}


def architecture_of(file: File) -> Architecture:
    """Raises ValueError where it is none that is known."""
    known = ARCHITECTURES.get(file.architecture)
    if known is None:
        raise ValueError(
            f"{file.path} holds a model of the architecture {file.architecture!r}; "
            f"supported are {', '.join(ARCHITECTURES)}"
        )
    return known


def configuration(file: File) -> dict[str, Any]:
    """Fields of transformers' configuration."""
    known = architecture_of(file)
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ValueError(f"{file.path} lacks token_embd.weight")
    ids = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {
        **known.fields(file, _Sizes(file)),
        **{field: file.metadata.get(f"tokenizer.ggml.{name}_token_id") for field, name in ids.items()},
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }


def parameter_name(architecture: Architecture, name: str) -> str | None:
    """A tensor's name in the model; None where the model has nothing for it."""
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?([a-z_]+)\.(weight|bias)", name)
    if match is None or match[2] not in architecture.names:
        return None
    place = architecture.names[match[2]] + "." + match[3]
    return place if match[1] is None else f"{architecture.layers}.{match[1]}.{place}"
