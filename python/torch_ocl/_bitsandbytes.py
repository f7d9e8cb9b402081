"""bitsandbytes' operators for `ocl`: kernels of torch_ocl read NF4, FP4 and int8 weights as such.

bitsandbytes (0.46 and later) registers its operators with PyTorch, with compositions for every device. Those that make
numbers of the whole weight, or ask for torch.compile, are replaced here.

Two codes of 4 bits in a byte are neighbours in bitsandbytes, the upper one first. In kernels_cl/quantized they are 16
apart, the lower one first. A product is a sum, so the input is put in that order, and not the weights.
"""

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

_BLOCK = 32  # codes, of which rows are multiples (kernels_cl/quantized/codes.clh)
_FORMATS = {"nf4": "nf4", "fp4": "bnb_fp4"}  # of torch_ocl's kernels
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_is_fp4 = WeakTensorKeyDictionary()  # by the table that a caller gives: reading it waits for the device


@functools.cache
def _values(quant_type: str, device: torch.device) -> torch.Tensor:
    """What the bytes stand for: float32 [256, 2]."""
    from bitsandbytes.functional import get_4bit_type

    table = get_4bit_type(quant_type, device="cpu")
    bytes_ = torch.arange(256)
    return torch.stack((table[bytes_ >> 4], table[bytes_ & 15]), -1).to(device)


def _check_4bit(blocksize: int, quant_type: str, dtype: torch.dtype) -> None:
    torch._check_value(quant_type in ("nf4", "fp4"), lambda: f"quant_type must be 'nf4' or 'fp4', got {quant_type!r}")
    torch._check(blocksize > 0 and blocksize % _BLOCK == 0, lambda: f"invalid blocksize {blocksize}")
    torch._check(
        dtype in _FLOATS, lambda: f"Blockwise 4bit dequantization only supports 16/32-bit floats, but got {dtype}"
    )


def _scaled(values: torch.Tensor, absmax: torch.Tensor, blocksize: int) -> torch.Tensor:
    """Values [n] times the factors of their blocks."""
    if values.numel() % blocksize:
        return values * absmax.repeat_interleave(blocksize)[: values.numel()]
    return (values.view(-1, blocksize) * absmax.view(-1, 1)).flatten()


def _bytes_of(packed: torch.Tensor) -> torch.Tensor:
    return packed.contiguous().view(torch.uint8).flatten()


def dequantize_4bit(
    packed: torch.Tensor,
    absmax: torch.Tensor,
    blocksize: int,
    quant_type: str,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Numbers of the sizes `shape` of packed codes and the largest absolute value of every `blocksize` of them."""
    _check_4bit(blocksize, quant_type, dtype)
    codes, count = _bytes_of(packed), math.prod(shape)
    torch._check(codes.numel() * 2 >= count, lambda: f"{codes.numel()} bytes do not hold {count} values of 4 bits")
    torch._check(
        absmax.numel() == -(-count // blocksize), lambda: f"{absmax.numel()} statistics for {count} values in blocks"
    )
    if count and count % blocksize == 0:
        rows: torch.Tensor = torch.ops.ocl.dequantize_weight(
            codes[: count // 2].view(-1, blocksize // 2),
            absmax.view(-1, 1),
            None,
            _FORMATS[quant_type],
            blocksize,
            blocksize,
            dtype,
        )
        halves = rows.view(-1, 2, _BLOCK // 2)
        return torch.stack((halves[:, 1], halves[:, 0]), -1).view(shape)
    values = _values(quant_type, codes.device).index_select(0, codes.int()).flatten()[:count]
    return _scaled(values, absmax, blocksize).to(dtype).view(shape)


def dequantize_blockwise(
    codes: torch.Tensor, absmax: torch.Tensor, table: torch.Tensor, blocksize: int, dtype: torch.dtype
) -> torch.Tensor:
    """Numbers of the sizes of `codes` (uint8), which are places in a table of 256."""
    torch._check(codes.dtype == torch.uint8, lambda: f"A must be uint8, got {codes.dtype}")
    torch._check(blocksize > 0, lambda: f"blocksize must be positive, got {blocksize}")
    values = table.index_select(0, codes.flatten().int())
    return _scaled(values, absmax, blocksize).to(dtype).view(codes.shape)


def _scales_of_rows(absmax: torch.Tensor, rows: int, columns: int, blocksize: int) -> torch.Tensor | None:
    """Statistics as scales [rows, groups] of a matrix; None where blocks end inside of rows."""
    if columns % blocksize == 0:
        return absmax.view(rows, -1)
    if blocksize % columns == 0:
        return absmax.repeat_interleave(blocksize // columns)[:rows].view(rows, 1)
    return None


def gemm_4bit(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: Sequence[int],
    absmax: torch.Tensor,
    blocksize: int,
    quant_type: str,
    bias: torch.Tensor | None = None,
    absmax_8bit: torch.Tensor | None = None,
    absmax_code: torch.Tensor | None = None,
    absmax_offset: torch.Tensor | None = None,
) -> torch.Tensor:
    """x [..., k], a packed weight of the sizes [n, k]: x W^T + bias [..., n]. Statistics may be codes themselves."""
    _check_4bit(blocksize, quant_type, x.dtype)
    torch._check(len(shape) == 2, lambda: f"shapeB must be 2D [N, K], got {list(shape)}")
    rows, columns = shape
    torch._check(x.shape[-1] == columns, lambda: f"A inner dim ({x.shape[-1]}) must match shapeB ({columns})")
    if absmax_8bit is not None:
        assert absmax_code is not None and absmax_offset is not None
        absmax = dequantize_blockwise(absmax_8bit, absmax, absmax_code, 256, torch.float32) + absmax_offset
    scales = _scales_of_rows(absmax, rows, columns, blocksize) if columns and columns % _BLOCK == 0 else None
    if scales is None or rows == 0:
        return F.linear(x, dequantize_4bit(packed, absmax, blocksize, quant_type, shape, x.dtype), bias)
    pairs = x.unflatten(-1, (-1, _BLOCK // 2, 2))
    ordered = torch.stack((pairs[..., 1], pairs[..., 0]), -2).view(x.shape)
    codes = _bytes_of(packed)[: rows * columns // 2].view(rows, -1)
    product: torch.Tensor = torch.ops.ocl.quantized_linear(
        ordered, codes, scales, None, bias, _FORMATS[quant_type], min(blocksize, columns)
    )
    return product


def gemv_4bit(
    x: torch.Tensor,
    packed: torch.Tensor,
    shape: Sequence[int],
    absmax: torch.Tensor,
    table: torch.Tensor,
    blocksize: int,
) -> torch.Tensor:
    """The same with the 16 values of a code, of which the second is negative in NF4 only."""
    if table not in _is_fp4:
        _is_fp4[table] = bool(table[1] > 0)
    return gemm_4bit(x, packed, shape, absmax, blocksize, "fp4" if _is_fp4[table] else "nf4")


def int8_linear_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """int8 [..., k] and [n, k]: int32 [..., n]."""
    return torch._int_mm(a.reshape(-1, a.shape[-1]), b.t()).view(*a.shape[:-1], b.shape[0])


def int8_mm_dequant(
    sums: torch.Tensor,
    row_stats: torch.Tensor,
    col_stats: torch.Tensor,
    dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sums of products of int8 as numbers [..., n]: bitsandbytes' composition has 5 digits of 127^-2."""
    torch._check_value(sums.dtype == torch.int32, lambda: f"A must be int32, got {sums.dtype}")
    rows = row_stats.float().view(*sums.shape[:-1], 1) / 127
    result = sums * rows * (col_stats.float().view(-1) / 127)
    return (result if bias is None else result + bias).to(dtype or torch.float16)


def int8_scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    row_stats: torch.Tensor,
    col_stats: torch.Tensor,
    bias: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """int8 [..., k] and [n, k] with the largest absolute values of their rows before they became int8: [..., n]."""
    if a.shape[-1] % _BLOCK or b.numel() == 0 or not b.is_contiguous():
        return int8_mm_dequant(int8_linear_matmul(a, b), row_stats, col_stats, dtype, bias)
    product: torch.Tensor = torch.ops.ocl.quantized_linear(
        a.float(), b.view(torch.uint8), col_stats.float().view(-1, 1) / 127, None, None, "int8", a.shape[-1]
    )
    product = product * (row_stats.float().view(*a.shape[:-1], 1) / 127)
    return (product if bias is None else product + bias).to(dtype or torch.float16)


def _out(function: Callable[..., torch.Tensor]) -> Callable[..., None]:
    """The function with an argument for its result."""

    @functools.wraps(function)
    def with_out(*args: Any) -> None:
        *inputs, out = args
        result = function(*inputs)
        torch._check(out.shape == result.shape, lambda: f"Expected out.shape == {result.shape}, got {out.shape}")
        torch._check(out.dtype == result.dtype, lambda: f"Expected out.dtype == {result.dtype}, got {out.dtype}")
        out.copy_(result)

    return with_out


_OPERATORS = (
    dequantize_4bit,
    dequantize_blockwise,
    gemm_4bit,
    gemv_4bit,
    int8_linear_matmul,
    int8_mm_dequant,
    int8_scaled_mm,
)


def register(defined: ModuleType) -> None:
    """Registers what this version of bitsandbytes defines (bitsandbytes._ops)."""
    for function in _OPERATORS:
        packet = getattr(torch.ops.bitsandbytes, function.__name__, None)
        for overload in () if packet is None else packet.overloads():
            if overload in ("default", "out"):
                name = f"bitsandbytes::{function.__name__}" + (".out" if overload == "out" else "")
                torch.library.impl(name, "PrivateUse1", _out(function) if overload == "out" else function)


def announce(package: ModuleType) -> None:
    """bitsandbytes names its devices for transformers and diffusers."""
    devices = getattr(package, "supported_torch_devices", None)
    if isinstance(devices, set):
        devices.add("ocl")
