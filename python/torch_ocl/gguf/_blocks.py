"""The blocks in which GGUF files store weights, and their values by PyTorch's operators, on any device."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Type:
    """How a tensor is stored: `bytes` for `weights` neighbours of a row. `kernels`: whether kernels read it."""

    name: str
    weights: int
    bytes: int
    kernels: bool = False


# By ggml's numbers.
TYPES = {
    0: Type("f32", 1, 4),
    1: Type("f16", 1, 2),
    2: Type("q4_0", 32, 18, kernels=True),
    3: Type("q4_1", 32, 20),
    6: Type("q5_0", 32, 22),
    7: Type("q5_1", 32, 24),
    8: Type("q8_0", 32, 34, kernels=True),
    12: Type("q4_k", 256, 144, kernels=True),
    13: Type("q5_k", 256, 176),
    14: Type("q6_k", 256, 210, kernels=True),
    30: Type("bf16", 1, 2),
}
BY_NAME = {type_.name: type_ for type_ in TYPES.values()}
_PLAIN = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def _half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    return blocks[..., at : at + 2].contiguous().view(torch.float16).float()


def _halves(blocks: torch.Tensor) -> torch.Tensor:
    """Lower halves of the bytes, then their upper halves."""
    return torch.cat((blocks & 15, blocks >> 4), -1)


def _bits(blocks: torch.Tensor) -> torch.Tensor:
    """The bits of 4 bytes, the lowest first, as 16 (the fifth bit of a weight)."""
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    return ((blocks.unsqueeze(-1) >> shifts) & 1).flatten(-2) << 4


def _six_bits(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and minima [..., 8] of 12 bytes."""
    a, b, c = blocks[..., :4], blocks[..., 4:8], blocks[..., 8:12]
    scales = torch.cat((a & 63, c & 15 | a >> 6 << 4), -1)
    minima = torch.cat((b & 63, c >> 4 | b >> 6 << 4), -1)
    return scales.float(), minima.float()


def _five_bits(blocks: torch.Tensor) -> torch.Tensor:
    """The 256 weights of a block of Q5_K, 0 to 31, [..., 8, 32]."""
    low: torch.Tensor = _halves(blocks[..., 48:176].unflatten(-1, (4, 32))).unflatten(-1, (2, 32)).flatten(-3, -2)
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device).unsqueeze(-1)
    high: torch.Tensor = blocks[..., 16:48].unsqueeze(-2) >> shifts & 1
    return low | high << 4


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _halves(blocks[..., :128].unflatten(-1, (2, 64))).unflatten(-1, (4, 32))
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=blocks.device).unsqueeze(-1)
    high = blocks[..., 128:192].unflatten(-1, (2, 1, 32)) >> shifts & 3
    weights = (low | high << 4).flatten(-3).float() - 32
    scales = blocks[..., 192:208].contiguous().view(torch.int8).float()
    scaled: torch.Tensor = (scales.unsqueeze(-1) * weights.unflatten(-1, (16, 16))).flatten(-2)
    return _half(blocks, 208) * scaled


def _values(blocks: torch.Tensor, name: str) -> torch.Tensor:
    """Blocks [..., bytes]: their weights [..., weights], float32."""
    d = _half(blocks, 208 if name == "q6_k" else 0)
    if name == "q8_0":
        return d * blocks[..., 2:].contiguous().view(torch.int8).float()
    if name == "q4_0":
        return d * (_halves(blocks[..., 2:]).float() - 8)
    if name == "q4_1":
        return d * _halves(blocks[..., 4:]).float() + _half(blocks, 2)
    if name == "q5_0":
        return d * ((_halves(blocks[..., 6:]) | _bits(blocks[..., 2:6])).float() - 16)
    if name == "q5_1":
        return d * (_halves(blocks[..., 8:]) | _bits(blocks[..., 4:8])).float() + _half(blocks, 2)
    if name == "q6_k":
        return _q6_k(blocks)
    scales, minima = _six_bits(blocks[..., 4:16])
    if name == "q4_k":
        codes = _halves(blocks[..., 16:].unflatten(-1, (4, 32))).unflatten(-1, (2, 32)).flatten(-3, -2)
    else:
        codes = _five_bits(blocks)
    offsets = (_half(blocks, 2) * minima).unsqueeze(-1)
    weights: torch.Tensor = (d * scales).unsqueeze(-1) * codes.float() - offsets
    return weights.flatten(-2)


def dequantize(data: torch.Tensor, name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rows of blocks, uint8 [..., bytes of a row]: the weights [..., k] as `dtype`. `name`: see TYPES."""
    if name in _PLAIN:
        if data.storage_offset() % 4:
            data = data.clone()
        return data.contiguous().view(_PLAIN[name]).to(dtype)
    type_ = BY_NAME[name]
    blocks = data.unflatten(-1, (-1, type_.bytes))
    return _values(blocks, name).flatten(-2).to(dtype)


def to_q8_0(weights: torch.Tensor) -> torch.Tensor:
    """Weights [..., k], k a multiple of 32, as rows of Q8_0 blocks."""
    groups = weights.float().unflatten(-1, (-1, 32))
    scales = (groups.abs().amax(-1, keepdim=True) / 127).to(torch.float16)
    divisor = torch.where(scales == 0, 1, scales.float())
    codes = (groups / divisor).round().clamp(-127, 127).to(torch.int8)
    return torch.cat((scales.view(torch.uint8), codes.view(torch.uint8)), -1).flatten(-2)
