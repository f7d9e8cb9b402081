"""What nn.DataParallel calls in torch._C and only builds for CUDA contain: copies of tensors to and from several devices."""

import contextlib

import torch


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


def apply():
    """Adds them where they are missing."""
    for function in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)
