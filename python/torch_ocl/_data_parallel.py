"""What nn.DataParallel calls in torch._C: copies of tensors to and from several devices.

Only builds of PyTorch for CUDA contain these functions, and theirs serve CUDA alone.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from _torch_ocl_boot import accelerators

from . import ocl


def _device(index: int) -> torch.device:
    return torch.device("cpu") if index == -1 else torch.device("ocl", index)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for other in out:
        other.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [[tensor.to(_device(index), non_blocking=True) for tensor in tensors] for index in devices]


def _chunks(tensor: torch.Tensor, count: int, chunk_sizes: list[int] | None, dim: int) -> Sequence[torch.Tensor]:
    return tensor.split(chunk_sizes, dim) if chunk_sizes is not None else tensor.chunk(count, dim)


Streams = Sequence[torch.Stream | None] | None


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], chunk_sizes: list[int] | None, dim: int, streams: Streams
) -> list[torch.Tensor]:
    parts = []
    for i, (chunk, index) in enumerate(zip(_chunks(tensor, len(devices), chunk_sizes, dim), devices, strict=False)):
        with (streams[i] if streams else None) or contextlib.nullcontext():
            parts.append(chunk.contiguous().to(_device(index), non_blocking=True))
    return parts


def _scatter_out(tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Streams) -> list[torch.Tensor]:
    for i, (chunk, other) in enumerate(zip(tensor.split([other.size(dim) for other in out], dim), out, strict=True)):
        with (streams[i] if streams else None) or contextlib.nullcontext():
            other.copy_(chunk, non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    device = _device(ocl.current_device() if destination is None else destination)
    return torch.cat([tensor.to(device, non_blocking=device.type != "cpu") for tensor in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))


def _is_ours(tensors: torch.Tensor | Sequence[torch.Tensor]) -> bool:
    """Whether to copy `ocl` tensors, or host tensors (to device numbers) where no device of PyTorch's own can be
    meant."""
    first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
    kind = "cpu" if first is None else first.device.type
    return kind == "ocl" or (kind == "cpu" and accelerators.other() is None)


def _beside(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(ours)
    def function(tensors: Any, *arguments: Any, **options: Any) -> Any:
        return (ours if _is_ours(tensors) else original)(tensors, *arguments, **options)

    return function


def apply() -> None:
    """Adds them where they are missing, and puts them in front of CUDA's where those are."""
    for ours in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        original = getattr(torch._C, ours.__name__, None)
        setattr(torch._C, ours.__name__, ours if original is None else _beside(original, ours))
