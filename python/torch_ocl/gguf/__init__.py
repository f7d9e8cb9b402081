"""Language models in GGUF files, the format of llama.cpp: `model = torch_ocl.gguf.load("model.gguf")`."""

from ._load import QuantizedEmbedding, load, tokenizer
from ._reader import File, Tensor

__all__ = ["File", "QuantizedEmbedding", "Tensor", "load", "tokenizer"]
