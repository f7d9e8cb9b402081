"""`from_pretrained(folder, gguf_file=..., device_map="ocl")` of transformers keeps the weights in the file's blocks.

transformers does so where a "kernel" reads blocks, and dequantises the model otherwise. This is such a kernel; and the
models that transformers reads by its older code, which always dequantises, keep their blocks in its layers as well.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from . import _blocks
from ._load import blocks_of, reordered
from ._models import ARCHITECTURES, architecture_of, parameter_name
from ._reader import File, Tensor

_KEPT = {number: type_ for number, type_ in _blocks.TYPES.items() if type_.kernels}
_NUMBERS = {type_.name: number for number, type_ in _KEPT.items()}


class Kernel:
    """What transformers calls of a package of kernels for GGUF blocks, uint8 [rows, bytes of a row] of ggml's types.

    `other` is a package for other devices, or None: tensors that are neither on `ocl` nor on the CPU are for it.
    """

    gemv_types = frozenset(_KEPT)

    def __init__(self, other: Any = None) -> None:
        self.other = other

    def _is_ours(self, blocks: torch.Tensor) -> bool:
        return not self.other or blocks.device.type in ("ocl", "cpu", "meta")

    def supports(self, ggml_type: int) -> bool:
        """Whether blocks of this type can stay."""
        return ggml_type in self.gemv_types

    def mul_mat_vec(self, blocks: torch.Tensor, x: torch.Tensor, ggml_type: int, out_features: int) -> torch.Tensor:
        """x [m, k]: x W^T [m, rows], of x's dtype."""
        if not self._is_ours(blocks):
            return self.other.mul_mat_vec(blocks, x, ggml_type, out_features)  # type: ignore[no-any-return]
        type_ = _blocks.TYPES[ggml_type]
        if not type_.kernels or blocks.device.type not in ("ocl", "cpu", "meta"):
            return F.linear(x, _blocks.dequantize(blocks, type_.name, x.dtype))
        product: torch.Tensor = torch.ops.ocl.quantized_linear(x, blocks, None, None, None, type_.name, type_.weights)
        return product

    def dequantize(
        self, blocks: torch.Tensor, ggml_type: int, rows: int, cols: int, dtype: torch.dtype
    ) -> torch.Tensor:
        """The weights [rows, cols]."""
        if not self._is_ours(blocks):
            return self.other.dequantize(blocks, ggml_type, rows, cols, dtype)  # type: ignore[no-any-return]
        type_ = _blocks.TYPES[ggml_type]
        blocks = blocks.reshape(rows, -1)
        if not type_.kernels or blocks.device.type not in ("ocl", "cpu", "meta"):
            return _blocks.dequantize(blocks, type_.name, dtype)
        weights: torch.Tensor = torch.ops.ocl.dequantize_weight(
            blocks, None, None, type_.name, cols, type_.weights, dtype
        )
        return weights

    def get_rows(
        self, blocks: torch.Tensor, indices: torch.Tensor, ggml_type: int, cols: int, dtype: torch.dtype
    ) -> torch.Tensor:
        """The weights [len(indices), cols] of some rows."""
        if not self._is_ours(blocks):
            return self.other.get_rows(blocks, indices, ggml_type, cols, dtype)  # type: ignore[no-any-return]
        return self.dequantize(blocks.index_select(0, indices), ggml_type, indices.numel(), cols, dtype)

    def mul_mat_id(
        self, blocks: torch.Tensor, x: torch.Tensor, ids: torch.Tensor, ggml_type: int, out_features: int
    ) -> torch.Tensor:
        """Experts' blocks [experts, rows, bytes], x [tokens, k], ids [tokens, n]: [tokens, n, rows], each row of x
        times the n matrices that were chosen for it."""
        if not self._is_ours(blocks):
            return self.other.mul_mat_id(blocks, x, ids, ggml_type, out_features)  # type: ignore[no-any-return]
        chosen = ids.reshape(-1)
        result = x.new_empty((chosen.numel(), out_features))
        for expert in chosen.unique().tolist():
            places = (chosen == expert).nonzero().squeeze(1)
            rows = x.index_select(0, places // ids.shape[1])
            result.index_copy_(0, places, self.mul_mat_vec(blocks[expert], rows, ggml_type, out_features))
        return result.view(*ids.shape, out_features)


class _Stored:
    """A tensor of a file that is read when transformers asks for it by [...]."""

    def __init__(self, shape: tuple[int, ...], read: Callable[[], torch.Tensor], is_blocks: bool) -> None:
        self.shape, self.read, self.is_blocks = shape, read, is_blocks

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.read()

    def is_floating_point(self) -> bool:
        """Blocks are bytes."""
        return not self.is_blocks


class _Plan:
    """Which layers of a model keep blocks, and what the file has for every parameter."""

    def __init__(self, file: File, model: nn.Module, dtype: Any) -> None:
        self.model, self.dtype = model, dtype
        self.architecture = architecture_of(file)
        self.tensors: dict[str, Tensor] = {}
        for tensor in file.tensors.values():
            name = parameter_name(self.architecture, tensor.name)
            if name is not None:
                self.tensors[name] = tensor
        self.kept: dict[str, int] = {}  # ggml's type of parameters that stay quantised
        for name, tensor in self.tensors.items():
            module = self._module(name)
            if tensor.type.weights > 1 and name.endswith(".weight") and _can_keep(module):
                self.kept[name] = _NUMBERS[tensor.type.name if tensor.type.kernels else "q8_0"]
        tied: Any = getattr(model, "_tied_weights_keys", None)
        for target, source in tied.items() if isinstance(tied, dict) else ():
            if source in self.kept and target not in self.tensors and _can_keep(self._module(target)):
                self.kept[target] = self.kept[source]

    def _module(self, parameter: str) -> nn.Module | None:
        try:
            return self.model.get_submodule(parameter.rpartition(".")[0])
        except AttributeError:
            return None

    @property
    def fits(self) -> bool:
        """Whether the model has the modules that the file's tensors are for (not where the head or more is absent)."""
        return all(self._module(name) is not None for name in self.tensors)

    def replace_modules(self) -> None:
        """Puts transformers' layers of blocks where blocks will be."""
        from transformers.integrations.gguf.utils import GgufEmbedding, GgufLinear

        for name, number in self.kept.items():
            path = name.rpartition(".")[0]
            module: Any = self.model.get_submodule(path)
            layer: Any
            if isinstance(module, nn.Embedding):
                layer = GgufEmbedding(module.num_embeddings, module.embedding_dim, number, self.dtype)
            else:
                rows, columns = module.weight.shape
                if not isinstance(module, nn.Linear):  # Conv1D
                    rows, columns = columns, rows
                layer = GgufLinear(columns, rows, number, getattr(module, "bias", None) is not None)
            self.model.set_submodule(path, layer)

    def state_dict(self) -> dict[str, _Stored]:
        """What the file has for each parameter, in transformers' order."""
        return {name: self._stored(name, tensor) for name, tensor in self.tensors.items()}

    def _stored(self, name: str, tensor: Tensor) -> _Stored:
        config: Any = self.model.config
        turned = type(self._module(name)).__name__ == "Conv1D" and name.endswith(".weight")

        def read() -> torch.Tensor:
            ordered = reordered(tensor, self.architecture, config)
            if name in self.kept:
                return blocks_of(ordered)[0].clone()  # not the mapping, which ends with the file
            values = _blocks.dequantize(ordered.data, tensor.type.name, self.dtype).view(tensor.shape)
            return (values.t() if turned else values).clone(memory_format=torch.contiguous_format)

        shape = tensor.shape
        if name in self.kept:
            type_ = _blocks.TYPES[self.kept[name]]
            shape = (shape[0], shape[1] // type_.weights * type_.bytes)
        return _Stored(tuple(reversed(shape)) if turned else shape, read, name in self.kept)


def _can_keep(module: nn.Module | None) -> bool:
    return type(module) in (nn.Linear, nn.Embedding) or type(module).__name__ == "Conv1D"


def _accelerator_is_ocl() -> bool:
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "ocl"


def _names_ocl(device_map: Any) -> bool:
    """Whether a device map puts (parts of) a model on `ocl`."""
    if isinstance(device_map, dict):
        return any(map(_names_ocl, device_map.values()))
    if isinstance(device_map, int) or device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        return _accelerator_is_ocl()
    return device_map is not None and str(device_map).split(":")[0] == "ocl"


def _kernel_of(kernels: Any) -> Kernel:
    """What transformers keeps as its kernels (integrations.gguf.kernels), ours around those for other devices."""
    if not isinstance(kernels._gguf_kernel, Kernel):
        kernels._gguf_kernel = Kernel(kernels._gguf_kernel or None)
    return kernels._gguf_kernel


@functools.cache
def _quantizer() -> type:
    """transformers' quantizer of GGUF files, for `ocl`."""
    from transformers.integrations.gguf import kernels as kernels_module
    from transformers.quantizers.quantizer_gguf import GgufHfQuantizer, logger

    kernel = functools.partial(_kernel_of, kernels_module)

    class OclGgufQuantizer(GgufHfQuantizer):  # type: ignore[misc, unused-ignore]
        """Its hooks, in the order in which `from_pretrained` calls them."""

        plan: _Plan | None = None
        file: File | None = None

        def validate_environment(self, *args: Any, **kwargs: Any) -> None:
            """Called again by read_header, for architectures that transformers can keep in blocks."""
            if not self.supported or not self.header.has_quantized_weights:
                super().validate_environment(*args, **kwargs)
                return
            self.kernel = kernel()

        def read_header(self, gguf_file: str) -> None:
            """Reads what kinds of tensors there are."""
            super().read_header(gguf_file)
            if self.supported:
                return
            try:
                file = File(gguf_file)
                if file.architecture not in ARCHITECTURES:
                    raise ValueError(f"the architecture is {file.architecture}")
            except ValueError as error:
                logger.warning(f"torch_ocl: the weights are dequantised, because of this: {error}")
                return
            if any(tensor.type.weights > 1 for tensor in file.tensors.values()):
                self.file = file
                self.kernel = kernel()

        def update_dtype(self, dtype: torch.dtype | None) -> torch.dtype:
            """The dtype of everything that is not quantised; kernels take 16 bits as well as 32."""
            chosen: torch.dtype = super().update_dtype(None) if dtype is None else dtype
            self.dtype = chosen
            return chosen

        def _process_model_before_weight_loading(self, model: nn.Module, **kwargs: Any) -> None:
            if self.file is not None:
                plan = _Plan(self.file, model, self.dtype)
                if plan.fits:
                    self.plan = plan
                    plan.replace_modules()
                    return
                logger.warning("torch_ocl: the weights are dequantised, because the model lacks parts of the file")
            super()._process_model_before_weight_loading(model, **kwargs)

        def get_state_dict(self, checkpoint_file: str, model: nn.Module) -> Any:
            """The file's tensors by the model's names."""
            if self.plan is None:
                return super().get_state_dict(checkpoint_file, model)
            return self.plan.state_dict()

    return OclGgufQuantizer


def install(auto: ModuleType) -> None:
    """Puts the above into transformers.quantizers.auto (versions of it that know GgufConfig)."""
    original = getattr(auto, "get_hf_quantizer", None)
    config_type = getattr(auto, "GgufConfig", None)
    if original is None or config_type is None or "gguf_file" not in inspect.signature(original).parameters:
        return
    from transformers.integrations.gguf import kernels as kernels_module

    signature = inspect.signature(original)
    kernels: Any = kernels_module

    @functools.wraps(original)
    def get_hf_quantizer(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        device_map = given.get("device_map")
        asked = isinstance(given.get("quantization_config"), config_type) and _accelerator_is_ocl()
        found = original(*args, **kwargs)
        if given.get("gguf_file") is None or found[0].quantization_config.dequantize:
            return found
        if _names_ocl(device_map) or (device_map is None and asked):
            found[0].__class__ = _quantizer()
            found[0].attn_requested = True  # there is no other attention to be fetched for this device
        elif isinstance(kernels._gguf_kernel, Kernel) and not kernels._gguf_kernel.other:
            found[0].quantization_config.dequantize = True  # as where there are no kernels
        return found

    auto.get_hf_quantizer = get_hf_quantizer  # type: ignore[attr-defined]
    for name in ("transformers.quantizers", "transformers.modeling_utils"):  # where they were imported first
        user = sys.modules.get(name)
        if getattr(user, "get_hf_quantizer", None) is original:
            user.get_hf_quantizer = get_hf_quantizer  # type: ignore[union-attr]
