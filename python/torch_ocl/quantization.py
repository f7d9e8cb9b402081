"""Linear layers whose weights stay quantised: `torch_ocl.quantize_(model, "int4")`."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .gguf import _blocks

_BLOCK = 32  # codes, of which rows are multiples (kernels_cl/quantized/codes.clh)
_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@functools.cache  # a look-up by name takes as long as a launch; without an OpenCL loader there is none
def _linear() -> Any:
    return torch.ops.ocl.quantized_linear.default


@dataclass(frozen=True)
class _Format:
    bits: int
    group: int | None  # neighbours of a row that share a scale, where the caller does not say; None: the row
    largest: float  # value of a code
    values: tuple[float, ...] | None = None  # of the codes of 4 bits


_FORMATS = {
    "int8": _Format(8, None, 127),
    "float8": _Format(8, None, 448),
    "int4": _Format(4, 128, 7, tuple(float(i - 8) for i in range(16))),
    "nf4": _Format(4, 64, 1, _NF4),
    "fp4": _Format(4, 32, 6, _FP4),
}


def _nearest(values: tuple[float, ...], x: torch.Tensor) -> torch.Tensor:
    """Indices of the values nearest to the elements of x."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    steps = torch.tensor([values[i] for i in order], dtype=x.dtype, device=x.device)
    place = torch.bucketize(x.contiguous(), (steps[1:] + steps[:-1]) / 2)
    return torch.tensor(order, dtype=torch.uint8, device=x.device)[place]


def _codes(name: str, scaled: torch.Tensor) -> torch.Tensor:
    """Codes (uint8) of weights that were divided by their scale."""
    if name == "int8":
        return scaled.round().clamp(-127, 127).to(torch.int8).view(torch.uint8)
    if name == "float8":
        return scaled.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    if name == "int4":
        return (scaled.round().clamp(-8, 7) + 8).to(torch.uint8)
    return _nearest(_NF4 if name == "nf4" else _FP4, scaled)


def _scales(form: _Format, name: str, groups: torch.Tensor, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and offsets of groups [n, groups, group]; the offsets are zeros when symmetric."""
    if not symmetric:
        low, high = groups.amin(-1), groups.amax(-1)
        scale = (high - low) / (2**form.bits - 1)
        return scale, low + 2 ** (form.bits - 1) * scale
    if name == "int4":  # the largest weight becomes -8, of which there is one code more than of 7
        largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True)).squeeze(-1)
        return largest / -8, torch.zeros_like(largest)
    largest = groups.abs().amax(-1)
    return largest / form.largest, torch.zeros_like(largest)


def _pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes [n, k], one in a byte, as rows of whole blocks (kernels_cl/quantized/codes.clh)."""
    codes = F.pad(codes, (0, -codes.shape[1] % _BLOCK))
    if bits == 8:
        return codes.contiguous()
    halves = codes.view(codes.shape[0], -1, 2, 16)
    return (halves[:, :, 0] | halves[:, :, 1] << 4).flatten(1).contiguous()


def _unpack(
    codes: torch.Tensor,
    scales: torch.Tensor | None,
    offsets: torch.Tensor | None,
    name: str,
    columns: int,
    group: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The weights [n, columns] by PyTorch's operators: for devices without kernels."""
    if scales is None:
        return _blocks.dequantize(codes, name, dtype)
    form = _FORMATS[name]
    if form.values is None:
        values = codes.view(torch.int8 if name == "int8" else torch.float8_e4m3fn).float()
    else:
        halves = codes.view(codes.shape[0], -1, 1, 16)
        both = torch.cat((halves & 15, halves >> 4), 2).flatten(1).long()
        values = torch.tensor(form.values, device=codes.device)[both]
    weight = values[:, :columns] * scales.float().repeat_interleave(group, 1)[:, :columns]
    if offsets is not None:
        weight = weight + offsets.float().repeat_interleave(group, 1)[:, :columns]
    return weight.to(dtype)


@torch.library.impl("ocl::dequantize_weight", "CPU")
def _dequantize_on_cpu(
    codes: torch.Tensor,
    scales: torch.Tensor | None,
    offsets: torch.Tensor | None,
    format: str,
    columns: int,
    group: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    return _unpack(codes, scales, offsets, format, columns, group, dtype)


@torch.library.impl("ocl::quantized_linear", "CPU")
def _linear_on_cpu(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor | None,
    offsets: torch.Tensor | None,
    bias: torch.Tensor | None,
    format: str,
    group: int,
) -> torch.Tensor:
    return F.linear(x, _unpack(codes, scales, offsets, format, x.shape[-1], group, x.dtype), bias)


@torch.library.impl("ocl::quantized_linear", "Meta")
def _linear_shape(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor | None,
    offsets: torch.Tensor | None,
    bias: torch.Tensor | None,
    format: str,
    group: int,
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


@torch.library.impl("ocl::dequantize_weight", "Meta")
def _weight_shape(
    codes: torch.Tensor,
    scales: torch.Tensor | None,
    offsets: torch.Tensor | None,
    format: str,
    columns: int,
    group: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    return codes.new_empty((codes.shape[0], columns), dtype=dtype)


class _Product(torch.autograd.Function):
    """The product of a frozen quantised weight, with a gradient for the input and the bias (adapters train so)."""

    @staticmethod
    def forward(ctx, x, bias, layer):  # type: ignore[no-untyped-def]
        """x [..., in], bias [out] or None: [..., out]."""
        ctx.layer = layer
        return layer._product(x, bias)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """Gradients of x and bias."""
        need_x, need_bias, _ = ctx.needs_input_grad
        grad_x = grad @ ctx.layer.dequantize(grad.dtype) if need_x else None
        return grad_x, grad.flatten(0, -2).sum(0) if need_bias else None, None


class QuantizedLinear(nn.Module):
    """y = x W^T + bias with the codes of W, their scales and, where not symmetric, offsets as buffers.

    Made by `torch_ocl.quantize_`. x: [..., in_features] of float32, float16 or bfloat16; y: [..., out_features] of x's
    dtype. `format`: int8, float8, int4, nf4 or fp4, or a GGUF file's q8_0, q4_0, q4_k or q6_k, whose codes hold the
    scales; `group_size`: weights of a row that share a scale. The weight has no gradient; input and bias have.
    """

    scales: torch.Tensor | None
    offsets: torch.Tensor | None

    def __init__(self, linear: nn.Linear, format: str, group_size: int | None = None, symmetric: bool = True) -> None:
        super().__init__()
        form = _FORMATS[format]
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.format, self.group_size = format, min(group_size or form.group or linear.in_features, linear.in_features)
        weight = linear.weight.detach()
        count = -(-self.in_features // self.group_size)
        padded = F.pad(weight.float(), (0, count * self.group_size - self.in_features))
        groups = padded.view(self.out_features, count, self.group_size)
        scales, offsets = _scales(form, format, groups, symmetric)
        # Whole rows share a scale of full precision; scales of groups are rounded before the codes are chosen.
        kept = torch.float32 if self.group_size == self.in_features else torch.bfloat16
        scales, offsets = scales.to(kept), offsets.to(kept)
        divisor = torch.where(scales == 0, 1, scales.float()).unsqueeze(-1)
        codes = _codes(format, ((groups - offsets.float().unsqueeze(-1)) / divisor).flatten(1)[:, : self.in_features])
        self.register_buffer("codes", _pack(codes, form.bits))
        self.register_buffer("scales", scales)
        self.register_buffer("offsets", None if symmetric else offsets)
        self.bias = linear.bias

    @classmethod
    def from_blocks(cls, codes: torch.Tensor, format: str, bias: nn.Parameter | None = None) -> "QuantizedLinear":
        """A layer of a GGUF file's blocks: uint8 [out_features, bytes of a row], of the format q8_0, q4_0, q4_k or
        q6_k. The layer shares the memory of `codes`."""
        type_ = _blocks.BY_NAME.get(format)
        if type_ is None or not type_.kernels:
            raise ValueError(f"QuantizedLinear: expected blocks of q8_0, q4_0, q4_k or q6_k, but got {format!r}")
        if codes.dim() != 2 or codes.dtype != torch.uint8 or codes.shape[1] % type_.bytes:
            raise ValueError(
                f"QuantizedLinear: expected uint8 rows of a multiple of {type_.bytes} bytes, but got "
                f"{list(codes.shape)} of {codes.dtype}"
            )
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.out_features, layer.in_features = codes.shape[0], codes.shape[1] // type_.bytes * type_.weights
        layer.format, layer.group_size = format, type_.weights
        layer.register_buffer("codes", codes)
        layer.register_buffer("scales", None)
        layer.register_buffer("offsets", None)
        layer.register_parameter("bias", bias)
        return layer

    def _product(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        result: torch.Tensor = _linear()(x, self.codes, self.scales, self.offsets, bias, self.format, self.group_size)
        return result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features]: [..., out_features]."""
        if x.shape[-1:] != (self.in_features,):
            raise RuntimeError(
                f"QuantizedLinear: expected an input of [..., {self.in_features}], but got {list(x.shape)}"
            )
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        bias = self.bias if self.bias is None or self.bias.dtype == x.dtype else self.bias.to(x.dtype)
        if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
            result: torch.Tensor = _Product.apply(x, bias, self)
            return result
        return self._product(x, bias)

    def part(self, x: torch.Tensor, begin: int, size: int) -> torch.Tensor:
        """x [..., in_features] times `size` rows of the weight from row `begin` on, with their bias: [..., size]."""
        rows = copy.copy(self)  # a layer that shares the memory of this one
        rows._buffers = {k: None if t is None else t.narrow(0, begin, size) for k, t in self._buffers.items()}
        parameters = {k: None if t is None else t.narrow(0, begin, size) for k, t in self._parameters.items()}
        rows.__dict__["_parameters"] = parameters  # tensors with a gradient, not parameters of their own
        rows.out_features = size
        return rows.forward(x)

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weight [out_features, in_features] as numbers of `dtype`."""
        weight: torch.Tensor = torch.ops.ocl.dequantize_weight(
            self.codes, self.scales, self.offsets, self.format, self.in_features, self.group_size, dtype
        )
        return weight

    def extra_repr(self) -> str:
        """Sizes and format."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"format={self.format!r}, group_size={self.group_size}, symmetric={self.offsets is None}"
        )


def quantize_(
    model: nn.Module,
    format: str,
    *,
    group_size: int | None = None,
    symmetric: bool = True,
    modules: Callable[[str, nn.Linear], bool] | None = None,
) -> nn.Module:
    """Replaces the `nn.Linear` layers inside `model`, in place, by layers whose weights are and stay quantised.

    Args:
        model: Any module, on any device; it may be moved to `ocl` later. Subclasses of `nn.Linear` are left alone.
        format: "int8", "float8" (e4m3fn), "int4", "nf4" (QLoRA's) or "fp4" (e2m1).
        group_size: Neighbouring weights of a row that share a scale: a multiple of 32. Without it: the whole row for
            8 bits, 128 for int4, 64 for nf4, 32 for fp4.
        symmetric: False stores an offset beside every scale (int8 and int4 only): better for weights that are not
            centred.
        modules: Called with the name and the layer; those for which it is false are kept.

    Returns:
        `model`.

    Raises:
        ValueError: For an unknown format, a group size that is no multiple of 32, offsets of a format that has none,
            and a model without a layer to replace.

    `state_dict` holds codes and scales; it loads into a model that was quantised in the same way.
    """
    if format not in _FORMATS:
        raise ValueError(f"quantize_: unknown format {format!r}: expected one of {', '.join(_FORMATS)}")
    if group_size is not None and (group_size <= 0 or group_size % _BLOCK):
        raise ValueError(f"quantize_: group_size must be a positive multiple of {_BLOCK}, but got {group_size}")
    if not symmetric and format not in ("int8", "int4"):
        raise ValueError(f"quantize_: only int8 and int4 have offsets, but got symmetric=False with {format!r}")
    replaced: dict[int, QuantizedLinear] = {}
    with torch.no_grad():
        for prefix, parent in list(model.named_modules()):
            for name, child in list(parent.named_children()):
                if type(child) is not nn.Linear or (modules and not modules(f"{prefix}.{name}".lstrip("."), child)):
                    continue
                if id(child) not in replaced:
                    replaced[id(child)] = QuantizedLinear(child, format, group_size, symmetric).train(child.training)
                setattr(parent, name, replaced[id(child)])
    if not replaced:
        raise ValueError("quantize_: no nn.Linear inside the model was replaced (a layer cannot replace itself)")
    return model
