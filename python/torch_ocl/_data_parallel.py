"""What nn.DataParallel calls in torch._C and only builds for CUDA contain: copies of tensors to and from several
devices."""

import contextlib
from collections.abc import Sequence

import torch

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


def apply() -> None:
    """Adds them where they are missing."""
    for function in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)
