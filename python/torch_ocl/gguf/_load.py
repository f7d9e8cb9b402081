"""Models of GGUF files with weights that stay as they lie in the file."""

import os
from typing import Any

import torch
from torch import nn

from . import _blocks
from ._models import Architecture, architecture_of, configuration, parameter_name
from ._reader import File, Tensor


class QuantizedEmbedding(nn.Module):
    """Rows of a table of GGUF blocks, uint8 [rows, bytes of a row], as numbers of `dtype`."""

    codes: torch.Tensor

    def __init__(self, codes: torch.Tensor, format: str, dtype: torch.dtype) -> None:
        super().__init__()
        type_ = _blocks.BY_NAME[format]
        self.num_embeddings, self.embedding_dim = codes.shape[0], codes.shape[1] // type_.bytes * type_.weights
        self.format, self.group_size, self.dtype = format, type_.weights, dtype
        self.register_buffer("codes", codes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Integers of any sizes: [..., embedding_dim]."""
        rows = self.codes.index_select(0, ids.reshape(-1))
        values: torch.Tensor = torch.ops.ocl.dequantize_weight(
            rows, None, None, self.format, self.embedding_dim, self.group_size, self.dtype
        )
        return values.view(*ids.shape, self.embedding_dim)

    def extra_repr(self) -> str:
        """Sizes and format."""
        return f"{self.num_embeddings}, {self.embedding_dim}, format={self.format!r}"


def _pairs_to_halves(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of queries or keys in the order in which transformers turns them: the halves of a head, not pairs."""
    pairs: torch.Tensor = rows.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).reshape(rows.shape)


def reordered(tensor: Tensor, architecture: Architecture, config: Any) -> Tensor:
    """A tensor with its rows in transformers' order."""
    if not architecture.interleaved or not tensor.name.startswith("blk."):
        return tensor
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = heads.get(tensor.name.split(".")[2])
    if count is None:
        return tensor
    data = tensor.data if len(tensor.shape) > 1 else tensor.data.view(tensor.shape[0], -1)
    turned = _pairs_to_halves(data, count).view(tensor.data.shape)
    return Tensor(tensor.name, tensor.shape, tensor.type, turned)


def blocks_of(tensor: Tensor) -> tuple[torch.Tensor, str]:
    """Blocks that kernels read, and their format. Of other types they are made."""
    if tensor.type.kernels:
        return tensor.data, tensor.type.name
    return _blocks.to_q8_0(_blocks.dequantize(tensor.data, tensor.type.name)), "q8_0"


class _Loader:
    """Puts the tensors of a file into a model whose parameters have no memory yet."""

    def __init__(self, file: File, model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        self.file, self.model, self.device, self.dtype = file, model, device, dtype
        self.architecture: Architecture = architecture_of(file)
        self.frequencies: torch.Tensor | None = None

    def take(self, tensor: Tensor) -> None:
        """A tensor to where it belongs. What the model has no place for is left."""
        if tensor.name == "rope_freqs.weight":
            self.frequencies = _blocks.dequantize(tensor.data, tensor.type.name)
            return
        name = parameter_name(self.architecture, tensor.name)
        if name is None:
            return
        path, _, leaf = name.rpartition(".")
        try:
            module = self.model.get_submodule(path)
        except AttributeError:
            return
        tensor = reordered(tensor, self.architecture, self.model.config)
        if leaf == "weight" and tensor.type.weights > 1 and self._keep_quantised(path, module, tensor):
            return
        place = getattr(module, leaf, None)
        if not isinstance(place, nn.Parameter):
            raise ValueError(f"{self.file.path}: the model has no parameter for {tensor.name}")
        values = _blocks.dequantize(tensor.data, tensor.type.name, self.dtype).view(tensor.shape)
        if type(module).__name__ == "Conv1D" and leaf == "weight":
            values = values.t()
        if values.shape != place.shape:
            raise ValueError(
                f"{self.file.path}: {tensor.name} has the sizes {list(values.shape)}, but the model needs "
                f"{list(place.shape)}"
            )
        self._set(module, leaf, values.contiguous().to(self.device, copy=True))

    def _set(self, module: nn.Module, leaf: str, values: torch.Tensor) -> None:
        setattr(module, leaf, nn.Parameter(values, requires_grad=False))

    def _keep_quantised(self, path: str, module: nn.Module, tensor: Tensor) -> bool:
        """Replaces a layer by one of blocks; whether there is one."""
        from ..quantization import QuantizedLinear

        if len(tensor.shape) != 2:
            return False
        weight: Any = getattr(module, "weight", None)
        turned = type(module).__name__ == "Conv1D"  # GPT-2's layer, [in, out] in transformers
        if not (turned or type(module) in (nn.Linear, nn.Embedding)):
            return False
        if tensor.shape != (tuple(reversed(weight.shape)) if turned else tuple(weight.shape)):
            raise ValueError(
                f"{self.file.path}: {tensor.name} has the sizes {list(tensor.shape)}, but the model needs "
                f"{list(weight.shape)}"
            )
        blocks, form = blocks_of(tensor)
        blocks = blocks.to(self.device, copy=True)
        layer: nn.Module
        if type(module) is nn.Embedding:
            layer = QuantizedEmbedding(blocks, form, self.dtype)
        else:
            layer = QuantizedLinear.from_blocks(blocks, form, getattr(module, "bias", None))
        self.model.set_submodule(path, layer)
        return True

    def tie(self) -> None:
        """The embedding as the last layer, where the file has none of its own."""
        from ..quantization import QuantizedLinear

        if not self.model.config.tie_word_embeddings:  # type: ignore[union-attr]
            return
        embedding = self.model.get_submodule(self.architecture.names["token_embd"])
        path = self.architecture.names["output"]
        if isinstance(embedding, QuantizedEmbedding):
            self.model.set_submodule(path, QuantizedLinear.from_blocks(embedding.codes, embedding.format))
        else:
            self.model.get_submodule(path).weight = embedding.weight

    def finish(self) -> None:
        """Buffers that are no part of a file, and what is missing."""
        missing = [name for name, parameter in self.model.named_parameters() if parameter.is_meta]
        if missing:
            raise ValueError(f"{self.file.path} has no weights for {', '.join(missing[:5])}")
        for module in self.model.modules():
            own = dict(module.named_buffers(recurse=False))
            if not any(buffer.is_meta for buffer in own.values()):
                continue
            for name, buffer in own.items():
                module._buffers[name] = torch.empty_like(buffer, device="cpu")
            self.model._init_weights(module)  # type: ignore[operator]
            if self.frequencies is not None and "inv_freq" in own:
                for name in {"inv_freq", "original_inv_freq"} & own.keys():
                    module._buffers[name].div_(self.frequencies)  # type: ignore[union-attr]
            module.to(self.device)


def load(
    path: str | os.PathLike[str],
    *,
    device: str | torch.device = "ocl",
    dtype: torch.dtype = torch.bfloat16,
) -> Any:
    """A causal language model of transformers from a GGUF file; its weights stay in the file's blocks.

    Args:
        path: The file. Models of the architectures llama (Mistral's too), qwen2, qwen3, phi3 and gpt2.
        device: Where the model goes. Tensors are read one after another, so the device holds little more than the
            file's size, also meanwhile.
        dtype: Of everything that is not quantised: norms, biases, activations. bfloat16, float16 or float32.

    Returns:
        The model in evaluation mode. Q8_0, Q4_0, Q4_K and Q6_K are kept; of the other types (Q4_1, Q5_0, Q5_1, Q5_K)
        Q8_0 is made.

    Raises:
        ImportError: Without transformers.
        OSError, ValueError: Where the file cannot be read, or is no model of these architectures.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    file = File(path)
    fields = configuration(file)
    config = AutoConfig.for_model(architecture_of(file).model_type, **fields, dtype=dtype)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.to(dtype)
    loader = _Loader(file, model, torch.device(device), dtype)
    for tensor in file.tensors.values():
        loader.take(tensor)
    loader.tie()
    loader.finish()
    return model.eval().requires_grad_(False)


def tokenizer(path: str | os.PathLike[str]) -> Any:
    """The tokenizer of a GGUF file, made by transformers (which needs the package gguf for some files)."""
    from transformers import AutoTokenizer

    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    return AutoTokenizer.from_pretrained(folder, gguf_file=name)
