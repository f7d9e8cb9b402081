"""`ocl` tensors in torch.multiprocessing queues: they arrive as copies, because OpenCL memory belongs to one process."""

import multiprocessing.reduction
import warnings

import torch
import torch.multiprocessing  # registers PyTorch's own way first
from torch.multiprocessing.reductions import reduce_tensor

_warned = False


def _rebuild(host, device, requires_grad, kind):
    tensor = host.to(device)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce(tensor):
    if tensor.device.type != "ocl" or (tensor.requires_grad and not tensor.is_leaf):
        return reduce_tensor(tensor)
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "An ocl tensor is sent to another process: it arrives there as a copy, in a process that must be started with 'spawn', and changes on "
            "either side are not seen on the other.",
            stacklevel=2,
        )
    return _rebuild, (tensor.detach().cpu(), tensor.device, tensor.requires_grad, type(tensor))


def register():
    for kind in (torch.Tensor, torch.nn.Parameter):
        multiprocessing.reduction.ForkingPickler.register(kind, _reduce)
