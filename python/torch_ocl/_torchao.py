"""torchao's quantised tensors on `ocl`: their products read codes as they lie, and int4 has packings for this device.

torchao's tensors say what an operator does with them in tables that any package may add to. Here `linear` on this
device is put in front of torchao's own, which makes numbers of the whole weight for each product, or knows other
devices only. The rest is torchao's: inputs with gradients, rows that are no multiple of 32, other layouts.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from .quantization import _FORMATS, _codes, _pack, _scales

_BLOCK = 32  # codes, of which rows are multiples (kernels_cl/quantized/codes.clh)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_TILE_COLUMNS = 1024  # torchao pads inputs of this packing to a multiple of it
_INNER_TILES = 8

Linear = Callable[[torch.Tensor, Any, "torch.Tensor | None"], "torch.Tensor | None"]


def _put_first(kind: Any, ours: Linear, numbers: Callable[[Any, torch.dtype], torch.Tensor] | None = None) -> None:
    """Products with tensors of this kind on `ocl` are ours; where that gives None, torchao's. With gradients they are
    products with the weight's numbers, or torchao's."""
    places = (
        ("_ATEN_OP_TABLE", torch.ops.aten.linear.default, "implements"),
        ("_TORCH_FN_TABLE", F.linear, "implements_torch_function"),
    )
    for table, key, register in places:
        original = getattr(kind, table, {}).get(kind, {}).get(key)
        if original is None:  # another version
            continue

        def linear(func: Any, types: Any, args: Any, kwargs: Any, original: Any = original) -> Any:
            x, weight = args[0], args[1]
            bias = args[2] if len(args) > 2 else (kwargs or {}).get("bias")
            learns = torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad))
            if x.device.type == "ocl" and type(weight) is kind:
                if learns and numbers is not None:
                    return F.linear(x, numbers(weight, x.dtype), bias)
                result = None if learns else ours(x, weight, bias)
                if result is not None:
                    return result
            return original(func, types, args, kwargs)

        getattr(kind, register)(key)(linear)


def _product(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    offsets: torch.Tensor | None,
    bias: torch.Tensor | None,
    format: str,
) -> torch.Tensor | None:
    """x [..., k], codes of a byte each [n, k], scales [n or 1, groups]: [..., n]; None where there is no kernel."""
    if codes.dim() != 2 or scales.dim() != 2 or not codes.is_contiguous() or scales.shape[0] not in (1, codes.shape[0]):
        return None
    n, k = codes.shape
    groups = scales.shape[1]
    if k == 0 or k % _BLOCK or (groups > 1 and k // groups % _BLOCK) or x.dtype not in _FLOATS or x.shape[-1] != k:
        return None
    if bias is not None:
        bias = bias.detach().to(x.dtype)
    product: torch.Tensor = torch.ops.ocl.quantized_linear(
        x, codes.view(torch.uint8), scales.expand(n, groups), offsets, bias, format, k // groups
    )
    return product


def _offsets(scales: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    return zero_point.to(scales.dtype) * -scales


def _int8_linear(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
    from torchao.quantization.quantize_.common import _choose_quant_func_and_quantize_tensor

    scales = weight.scale.float()
    if weight.act_pre_scale is not None:
        x = x * weight.act_pre_scale
    if weight.act_quant_kwargs is None:
        grouped = scales.dim() == 2 and scales.shape[1] > 1 and weight.zero_point is not None
        offsets = _offsets(scales, weight.zero_point.reshape(scales.shape)) if grouped else None
        return _product(x, weight.qdata, scales, offsets, bias, "int8")
    rounded: Any = _choose_quant_func_and_quantize_tensor(
        x, weight.act_quant_kwargs, scale=weight.act_quant_scale, zero_point=weight.act_quant_zero_point
    )
    # Integers of up to 8 bits and their differences are exact in bfloat16, and products of float16 could overflow.
    integers = rounded.qdata.to(torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float32)
    if rounded.zero_point is not None and weight.act_quant_kwargs.mapping_type.name == "ASYMMETRIC":
        integers = integers - rounded.zero_point
    product = _product(integers, weight.qdata, scales, None, None, "int8")
    if product is None:
        return None
    result: torch.Tensor = product * rounded.scale
    return (result if bias is None else result + bias).to(x.dtype)


def _float8_linear(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
    if weight.act_quant_kwargs is not None or weight.qdata.dtype != torch.float8_e4m3fn:
        return None
    scales = weight.scale.float()
    return _product(x, weight.qdata, scales.view(1, 1) if scales.numel() == 1 else scales, None, bias, "float8")


def int8(module: ModuleType) -> None:
    """Int8Tensor: weights alone, and with activations that are rounded to 8 bits."""
    _put_first(module.Int8Tensor, _int8_linear)


def float8(module: ModuleType) -> None:
    """Float8Tensor: weights alone."""
    _put_first(module.Float8Tensor, _float8_linear)


def intx(module: ModuleType) -> None:
    """IntxUnpackedToInt8Tensor: codes of fewer bits in a byte each."""

    def linear(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        if weight.activation_quantization is not None:
            if weight.activation_quantization != "int8_asym_per_token":
                return None
            x = module._apply_int8_act_asym_per_token_quant_dequant(x)
        scales = weight.scale.float()
        return _product(x, weight.qdata, scales, _offsets(scales, weight.zero_point), bias, "int8")

    _put_first(module.IntxUnpackedToInt8Tensor, linear)


def _int4(weight: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes 0 to 15 [n, k], scales and offsets [n, groups] of the weight's dtype."""
    groups = weight.detach().float().unflatten(1, (-1, group))
    scales, offsets = (t.to(weight.dtype) for t in _scales(_FORMATS["int4"], "int4", groups, False))
    divisor = torch.where(scales == 0, 1, scales.float()).unsqueeze(-1)
    return _codes("int4", ((groups - offsets.float().unsqueeze(-1)) / divisor).flatten(1)), scales, offsets


def _check_int4(weight: torch.Tensor, block_size: Any) -> int:
    group = int(block_size[-1])
    if weight.dim() != 2 or weight.dtype not in _FLOATS:
        raise NotImplementedError(
            f"int4 weights on ocl: expected a matrix of 16 or 32 bits, but got {list(weight.shape)} of {weight.dtype}"
        )
    if group % _BLOCK or weight.shape[1] % group:
        raise ValueError(
            f"int4 weights on ocl: groups must be multiples of {_BLOCK} and divide rows of {weight.shape[1]}, but got "
            f"{group}"
        )
    return group


def _wrap_from_hp(kind: Any, ours: Callable[..., Any]) -> None:
    """Weights on `ocl` are packed by ours."""
    original = kind.from_hp.__func__

    def from_hp(cls: Any, weight: torch.Tensor, block_size: Any, *args: Any, **kwargs: Any) -> Any:
        if weight.device.type == "ocl":
            return ours(weight, block_size, *args, **kwargs)
        return original(cls, weight, block_size, *args, **kwargs)

    kind.from_hp = classmethod(from_hp)


def _plain(weight: torch.Tensor, block_size: Any, **options: Any) -> Any:
    """A weight in the packing of kernels_cl/quantized/codes.clh, as torchao's tensor of 32-bit packings."""
    from torchao.quantization.quantize_.workflows.int4.int4_plain_int32_tensor import Int4PlainInt32Tensor

    if options.get("activation_dtype", torch.bfloat16) != torch.bfloat16:
        raise NotImplementedError(f"int4 weights on ocl: no kernels for activations of {options['activation_dtype']}")
    codes, scales, offsets = _int4(weight, _check_int4(weight, block_size))
    return Int4PlainInt32Tensor(
        _pack(codes, 4).view(torch.int32), scales.t().contiguous(), offsets.t().contiguous(), block_size, weight.shape
    )


def int4_plain(module: ModuleType) -> None:
    """PLAIN, which needs the package mslk elsewhere."""
    _wrap_from_hp(module.Int4Tensor, _plain)


def int4_plain_int32(module: ModuleType) -> None:
    """PLAIN_INT32, which torchao has for XPU and NPU."""
    kind = module.Int4PlainInt32Tensor

    def linear(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        if weight.act_pre_scale is not None:
            x = x * weight.act_pre_scale
        if x.dtype not in _FLOATS:
            return None
        product: torch.Tensor = torch.ops.ocl.quantized_linear(
            x,
            weight.qdata.view(torch.uint8),
            weight.scale.t(),
            weight.zero_point.t(),
            None if bias is None else bias.detach().to(x.dtype),
            "int4",
            weight.block_size[-1],
        )
        return product

    def numbers(weight: Any, dtype: torch.dtype) -> torch.Tensor:
        values: torch.Tensor = torch.ops.ocl.dequantize_weight(
            weight.qdata.view(torch.uint8),
            weight.scale.t(),
            weight.zero_point.t(),
            "int4",
            weight.shape[1],
            weight.block_size[-1],
            dtype,
        )
        return values if weight.act_pre_scale is None else values * weight.act_pre_scale

    _wrap_from_hp(kind, _plain)
    _put_first(kind, linear, numbers)


def int4_tile_packed(module: ModuleType) -> None:
    """TILE_PACKED_TO_4D, which torchao has for CUDA: its product is an operator of PyTorch."""
    kind = module.Int4TilePackedTo4dTensor

    def pack(
        weight: torch.Tensor, block_size: Any, int4_choose_qparams_algorithm: Any = None, ntile_size: int = 8
    ) -> Any:
        if weight.dtype != torch.bfloat16:
            raise NotImplementedError(f"{kind.__name__}: only bfloat16 is supported, but got {weight.dtype}")
        if getattr(int4_choose_qparams_algorithm, "name", "TINYGEMM") != "TINYGEMM":
            raise NotImplementedError(f"{kind.__name__} on ocl: {int4_choose_qparams_algorithm} is not supported")
        group = _check_int4(weight, block_size)
        n, k = weight.shape
        padded = F.pad(weight.detach(), (0, -k % _TILE_COLUMNS, 0, -n % ntile_size))
        codes, scales, offsets = _int4(padded, group)
        packed = torch.ops.aten._convert_weight_to_int4pack(codes[:, ::2] << 4 | codes[:, 1::2], _INNER_TILES)
        both = torch.stack((scales, offsets), -1).transpose(0, 1).contiguous()
        return kind(packed, both, block_size, weight.shape)

    _wrap_from_hp(kind, pack)
