"""What nn.DataParallel calls in torch._C: copies of tensors to and from several devices.

Only builds of PyTorch for CUDA contain these functions, and theirs serve CUDA alone.
"""

import contextlib
import functools

import torch

from _torch_ocl_boot import accelerators


def _device(index):
    return torch.device("cpu") if index == -1 else torch.device("ocl", index)


def _broadcast(tensor, devices):
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor, out):
    for other in out:
        other.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(tensors, devices, buffer_size):
    return [[tensor.to(_device(index), non_blocking=True) for tensor in tensors] for index in devices]


def _chunks(tensor, count, chunk_sizes, dim):
    return tensor.split(chunk_sizes, dim) if chunk_sizes is not None else tensor.chunk(count, dim)


def _scatter(tensor, devices, chunk_sizes, dim, streams):
    parts = []
    for i, (chunk, index) in enumerate(zip(_chunks(tensor, len(devices), chunk_sizes, dim), devices, strict=False)):
        with (streams[i] if streams else None) or contextlib.nullcontext():
            parts.append(chunk.contiguous().to(_device(index), non_blocking=True))
    return parts


def _scatter_out(tensor, out, dim, streams):
    for i, (chunk, other) in enumerate(zip(tensor.split([other.size(dim) for other in out], dim), out, strict=True)):
        with (streams[i] if streams else None) or contextlib.nullcontext():
            other.copy_(chunk, non_blocking=True)
    return list(out)


def _gather(tensors, dim, destination):
    device = _device(torch.ocl.current_device() if destination is None else destination)
    return torch.cat([tensor.to(device, non_blocking=device.type != "cpu") for tensor in tensors], dim)


def _gather_out(tensors, out, dim):
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))


def _is_ours(tensors):
    """Whether to copy `ocl` tensors, or host tensors (to device numbers) where no device of PyTorch's own can be meant."""
    first = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
    return first.device.type == "ocl" or (first.device.type == "cpu" and accelerators.other() is None)


def _beside(original, ours):
    @functools.wraps(original)
    def function(tensors, *arguments, **options):
        return (ours if _is_ours(tensors) else original)(tensors, *arguments, **options)

    return function


def apply():
    """Adds them where they are missing, and puts them in front of CUDA's where those are."""
    for ours in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        original = getattr(torch._C, ours.__name__, None)
        setattr(torch._C, ours.__name__, ours if original is None else _beside(original, ours))
