"""Tensors of odd kinds. A call is text that is evaluated with the names of this file, so that it can be read and
repeated: aten.add.Tensor(tensor((4, 4), "float32", "transposed"), 2).
"""

import torch

aten = torch.ops.aten
ocl = torch.ops.ocl
quantized = torch.ops.quantized
inf, nan = float("inf"), float("nan")
# The device under test; worker.py sets it.
DEVICE = "ocl"

DENSE = ("plain", "transposed", "stepped", "expanded", "offset", "overlapping", "huge_strides", "channels_last",
         "parameter", "computed", "conj", "neg")  # fmt: skip
SPARSE = ("coo", "coo_twice", "csr", "csc", "bsr")
# Whose storage, or that of a part of them, was resized to less than they need.
RESIZED = ("to_nothing", "to_half", "offset_beyond", "transposed_to_half", "coo_values", "coo_indices", "csr_values",
           "csr_rows", "jagged_values", "jagged_offsets", "nested_values", "quantized_to_nothing")  # fmt: skip
OTHERS = ("nested", "jagged", "quantized", "quantized_channels", "zero", "meta", "mkldnn")


def _numbers(shape, dtype, fill):
    """Small ones of either sign, whole ones from 0 to 2, or what `fill` says."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    if isinstance(fill, list):
        count = torch.Size(shape).numel()
        values = torch.tensor((fill * (count // max(len(fill), 1) + 1))[:count] if fill else [0] * count)
        return values.reshape(shape).to(dtype)
    if fill is not None:
        return torch.full(shape, fill).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator) * 0.7 + 0.2).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 3, shape, generator=generator).to(dtype)


def _dense(x, kind):
    if kind == "transposed" and x.dim():
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "stepped" and x.dim():
        return x.repeat_interleave(2, dim=-1)[..., ::2]
    if kind == "expanded" and x.dim() and x.size(0):
        return x[:1].expand(x.shape)
    if kind == "offset":
        return torch.cat([x.reshape(-1), x.reshape(-1)[:3]])[min(3, x.numel()) :].view(x.shape)
    if kind == "overlapping":
        return x.as_strided(x.shape, [1] * x.dim())
    if kind == "huge_strides":
        return x.reshape(-1)[:1].as_strided([1] * x.dim(), [2**40 + i for i in range(x.dim())])
    if kind == "channels_last" and x.dim() in (4, 5):
        return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    if kind == "conj":
        return x.conj()
    if kind == "neg":
        return torch._neg_view(x)
    return torch.nn.Parameter(x) if kind == "parameter" else x


def _sparse(x, kind):
    if kind == "coo":
        return x.to_sparse()
    if kind == "coo_twice":  # not coalesced
        y = x.to_sparse()
        return torch.sparse_coo_tensor(y.indices().repeat(1, 2), y.values().repeat(2), x.shape, check_invariants=False)
    if kind == "bsr":
        return x.to_sparse_bsr((1, 1))
    return x.to_sparse_csr() if kind == "csr" else x.to_sparse_csc()


def _other(x, kind):
    if kind in ("nested", "jagged"):
        rows = [x[:1].reshape(-1, 1), x.reshape(-1, 1)]
        return torch.nested.nested_tensor(rows, layout=torch.jagged if kind == "jagged" else torch.strided)
    if kind == "quantized":
        return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    if kind == "quantized_channels":
        return torch.quantize_per_channel(x, torch.ones(x.size(0)), torch.zeros(x.size(0)), 0, torch.qint8)
    if kind == "zero":
        return torch._efficientzerotensor(x.shape, dtype=x.dtype, device=x.device)
    if kind == "meta":
        return x.to("meta")
    return x.to_mkldnn()


def _resize(x, bytes_):
    x.untyped_storage().resize_(bytes_)
    return x


def _resized(x, kind):
    if kind == "to_nothing":
        return _resize(x, 0)
    if kind == "to_half":
        return _resize(x, x.nbytes // 2)
    if kind == "offset_beyond":
        return _resize(torch.cat([x.reshape(-1), x.reshape(-1)])[x.numel() :].view(x.shape), x.nbytes)
    if kind == "transposed_to_half":
        return _resize(_dense(x, "transposed"), x.nbytes // 2)
    whole = kind.partition("_")[0]
    y = _sparse(x, whole) if whole in SPARSE else _other(x, whole)
    parts = {"coo_values": "_values", "coo_indices": "_indices", "csr_values": "values", "csr_rows": "crow_indices",
             "jagged_values": "values", "jagged_offsets": "offsets", "nested_values": "values"}  # fmt: skip
    _resize(getattr(y, parts[kind])() if kind in parts else y, 0)
    return y


def tensor(shape, dtype="float32", kind="plain", device=None, grad=False, fill=None):
    """A tensor of that kind on the device under test or another one. Errors: whatever its construction raises."""
    x = _numbers(shape, getattr(torch, dtype), fill).to(device or DEVICE)
    if kind in DENSE:
        x = _dense(x, kind)
    elif kind in RESIZED:
        # PyTorch's own code for the CPU reads where such tensors point.
        x = _resized(x, kind) if x.device.type == torch.device(DEVICE).type else x
    else:
        x = _sparse(x, kind) if kind in SPARSE else _other(x, kind)
    if grad and (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.detach().requires_grad_()
    return x * 1 if kind == "computed" else x


def out(shape=(0,), dtype="float32", kind="plain", device=None):
    """A tensor to write to."""
    return tensor(shape, dtype, kind, device)


def generator(device=None):
    return torch.Generator(device or DEVICE)


def device(name=None):
    return torch.device(name or DEVICE)
