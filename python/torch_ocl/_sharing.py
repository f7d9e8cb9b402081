"""`ocl` tensors in torch.multiprocessing queues: they arrive as copies, because OpenCL memory belongs to one
process."""

import multiprocessing.reduction
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing  # registers PyTorch's own way first
from torch.multiprocessing.reductions import reduce_tensor

Reduced = tuple[Callable[..., torch.Tensor], tuple[Any, ...]]

_warned = False


def _rebuild(host: torch.Tensor, device: torch.device, requires_grad: bool, kind: type[torch.Tensor]) -> torch.Tensor:
    tensor = host.to(device)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> Reduced:
    if tensor.device.type != "ocl" or (tensor.requires_grad and not tensor.is_leaf):
        theirs: Reduced = reduce_tensor(tensor)
        return theirs
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "An ocl tensor is sent to another process: it arrives there as a copy, in a process that must be started "
            "with 'spawn', and changes on "
            "either side are not seen on the other.",
            stacklevel=2,
        )
    return _rebuild, (tensor.detach().cpu(), tensor.device, tensor.requires_grad, type(tensor))


def register() -> None:
    """Tells the pickler of processes how tensors of this device are sent."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        multiprocessing.reduction.ForkingPickler.register(kind, _reduce)
