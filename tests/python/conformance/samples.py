"""The samples of an operator, and calling it on them."""

import torch
from torch.utils import _pytree

from .place import CHANNELS_LAST
from .recorder import seed_of

LIMITS = {
    "values": 60,
    "layouts": 10,
    "gradient": 16,
    "second_gradient": 3,
    "out": 6,
    "inplace": 8,
    "zero_size": 4,
    "errors": 40,
}

# Their samples do not always name a device.
FACTORIES = (
    "arange",
    "linspace",
    "logspace",
    "full",
    "ones",
    "zeros",
    "eye",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
)

# Contents are not defined.
UNINITIALIZED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
# Of an empty batch the CPU returns memory that it never wrote; resizing grows by such.
UNINITIALIZED_IF_EMPTY = (
    "nn.functional.multi_margin_loss",
    "nn.functional.multilabel_margin_loss",
    "resize_",
    "resize_as_",
)


def describe(sample):
    """Shapes and arguments of a sample, short."""

    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
        return repr(leaf)

    parts = [one(leaf) for leaf in _pytree.tree_leaves((sample.input, sample.args))]
    parts += [f"{k}={_pytree.tree_map(one, v)}" for k, v in sample.kwargs.items()]
    return ("(" + ", ".join(parts) + ")")[:200]


def samples_of(op, dtype, limit, requires_grad=False):
    """Up to `limit` samples, spread evenly over those the database has; made on the CPU from a fixed seed."""
    torch.manual_seed(seed_of(op.name))
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    if len(samples) > limit:
        samples = [samples[i * len(samples) // limit] for i in range(limit)]
    return samples


def arguments(sample, op=None):
    kwargs = dict(sample.kwargs)
    if op is not None and op.name in FACTORIES:
        kwargs.setdefault("device", "cpu")
    return (sample.input, tuple(sample.args), kwargs)


def call(function, placed):
    x, args, kwargs = placed
    if getattr(function, "__name__", "") == "tensor_split":  # whose indices have to be CPU tensors, whatever the device
        args = tuple(a.cpu() if isinstance(a, torch.Tensor) else a for a in args)
    return function(x, *args, **kwargs)


# Among equal elements any may be pointed at: position of `dim` among the arguments behind the input.
TIES = {"sort": 0, "argsort": 0, "mode": 0, "topk": 1, "kthvalue": 1}


def without_ties(op, result, placed):
    """The result with indices of equal elements replaced by the elements there."""
    if op.name not in TIES or (isinstance(result, torch.Tensor) and op.name != "argsort"):
        return result
    (x, args, kwargs), place = placed, TIES[op.name]
    dim = kwargs.get("dim", args[place] if len(args) > place else -1)
    values, indices = (None, result) if op.name == "argsort" else result
    if x.dim() == 0:
        return values, indices  # of a single element
    wide = indices if indices.dim() == x.dim() else indices.unsqueeze(dim)
    distinct = op.name in ("mode", "kthvalue") or bool((wide.sort(dim).values.diff(dim=dim) != 0).all())
    return values, indices.dtype, indices.shape, x.gather(dim, wide), distinct


def tensors(tree):
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def has_channels(args):
    return any(t.dim() in CHANNELS_LAST for t in tensors(args))
