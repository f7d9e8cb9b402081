"""Putting the tensors of a sample on a device, in a layout that tests something."""

import torch
from torch.utils import _pytree

LAYOUTS = ("plain", "strided", "offset", "channels_last")
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
GARBAGE = 99


class Unsupported(Exception):
    """The sample is outside of what this backend has (sparse, quantized or nested tensors)."""


def place(tensor, device, layout="plain", requires_grad=False):
    """A copy with the tensor's sizes and strides (expanded dimensions stay expanded) whose storage lies on the device.

    strided: every stride doubled, garbage between the elements; offset: begins at element 3 of its storage;
    channels_last: only tensors of 4 and 5 dimensions change.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise Unsupported(f"{tensor.layout}")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    source = tensor.detach()
    if layout == "channels_last" and source.dim() in CHANNELS_LAST:
        source = source.contiguous(memory_format=CHANNELS_LAST[source.dim()])
    storage = source.untyped_storage()
    flat = torch.empty(0, dtype=source.dtype).set_(storage, 0, (storage.nbytes() // source.element_size(),))
    sizes, strides, offset = source.size(), source.stride(), source.storage_offset()
    if layout == "strided":
        flat = torch.stack([flat, torch.full_like(flat, GARBAGE)], 1).flatten()
        strides, offset = [2 * s for s in strides], 2 * offset
    elif layout == "offset":
        flat = torch.cat([torch.full((3,), GARBAGE, dtype=flat.dtype), flat])
        offset += 3
    else:
        flat = flat.clone()
    result = torch.as_strided(flat.to(device), sizes, strides, offset)
    if requires_grad and tensor.requires_grad:
        result.requires_grad_(True)
    return result


def place_all(tree, device, layout="plain", requires_grad=False, change=None):
    """The tree with its tensors placed; `device` arguments that name the CPU name the device instead. change: applied
    to tensors first."""

    def convert(leaf):
        if isinstance(leaf, torch.Tensor):
            moved = change(leaf) if change else leaf
            return place(moved, device, layout, requires_grad)
        if isinstance(leaf, torch.device) and leaf.type == "cpu":
            return torch.device(device)
        return device if isinstance(leaf, str) and leaf == "cpu" else leaf

    return _pytree.tree_map(convert, tree)


def widened(tree):
    """The tree in float64 or complex128."""
    wide = {
        torch.float16: torch.float64,
        torch.bfloat16: torch.float64,
        torch.float32: torch.float64,
        torch.complex64: torch.complex128,
    }

    def convert(leaf):
        if isinstance(leaf, torch.Tensor) and leaf.dtype in wide:
            return leaf.detach().to(wide[leaf.dtype]).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.dtype):
            return wide.get(leaf, leaf)
        return leaf

    return _pytree.tree_map(convert, tree)
