"""Tensors as hypothesis draws them: a base and a chain of views, described by data that builds the same tensor on any
device."""

import itertools
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGRAL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATING, *INTEGRAL, torch.bool, torch.complex64)
LONG = (16, 17, 31, 64, 100, 257)  # at least a vector, around work-group and tile sizes


def _special(dtype):
    if dtype in INTEGRAL:
        return (torch.iinfo(dtype).max, torch.iinfo(dtype).min, 0)
    return (torch.nan, torch.inf, -torch.inf, -0.0)


@dataclass(frozen=True)
class View:
    """One step of a chain: method of torch.Tensor with its arguments."""

    method: str
    arguments: tuple

    def __call__(self, tensor):
        if self.method == "slice":
            dim, start, stop, step = self.arguments
            return tensor[(slice(None),) * dim + (slice(start, stop, step),)]
        return getattr(tensor, self.method)(*self.arguments)


@dataclass(frozen=True)
class Source:
    """A tensor: values from a seed, shape, dtype, offset of the first element in its storage, views on top.

    special: among the values are NaN and infinities, or an integer type's limits.
    """

    shape: tuple
    dtype: torch.dtype
    seed: int
    offset: int
    views: tuple
    special: bool = False

    def base(self):
        values = self._ordinary()
        if self.special and self.dtype != torch.bool and values.numel():
            places = torch.randint(
                0, values.numel(), (max(1, values.numel() // 8),), generator=torch.Generator().manual_seed(self.seed)
            )
            for place, value in zip(places.tolist(), itertools.cycle(_special(self.dtype))):
                values[place] = value
        return values

    def _ordinary(self):
        generator = torch.Generator().manual_seed(self.seed)
        count = self.offset + torch.Size(self.shape).numel()
        if self.dtype == torch.bool:
            return torch.randint(0, 2, (count,), generator=generator).bool()
        if self.dtype in INTEGRAL:
            low = 0 if self.dtype == torch.uint8 else -20
            return torch.randint(low, 21, (count,), generator=generator).to(self.dtype)
        # few bits, so that sums are exact in any order and comparisons do not hang on rounding
        values = torch.randint(-64, 65, (count,), generator=generator) / 16
        if self.dtype.is_complex:
            return torch.complex(values, values.flip(0)).to(self.dtype)
        return values.to(self.dtype)

    def on(self, device):
        """(tensor, its storage as a flat tensor)"""
        flat = self.base().to(device)
        tensor = flat[self.offset :].view(self.shape)
        for view in self.views:
            tensor = view(tensor)
        return tensor, flat


def sizes():
    return st.one_of(st.integers(1, 7), st.sampled_from([0, 1, *LONG]))


@st.composite
def shapes(draw, min_dims=0, max_dims=5, limit=20000):
    dims = draw(st.integers(min_dims, max_dims))
    shape = []
    for _ in range(dims):
        size = draw(sizes())
        if torch.Size([*shape, size]).numel() > limit:
            size = draw(st.integers(1, 3))
        shape.append(size)
    return tuple(shape)


@st.composite
def _step(draw, tensor, writable):
    """A view of the tensor. writable: no two elements share memory."""
    kinds = ["permute", "slice", "unsqueeze", "narrow", "offset"]
    if tensor.dim() > 0:
        kinds += ["slice", "select", "diagonal"]
    if not writable:
        kinds += ["expand", "as_strided", "unfold"]
    kind = draw(st.sampled_from(kinds))
    if kind == "unsqueeze":
        return View("unsqueeze", (draw(st.integers(0, tensor.dim())),)) if tensor.dim() < 6 else None
    if tensor.dim() == 0:
        return None
    dim = draw(st.integers(0, tensor.dim() - 1))
    size = tensor.shape[dim]
    if kind == "permute":
        return View("permute", tuple(draw(st.permutations(range(tensor.dim())))))
    if kind == "slice":
        start = draw(st.integers(0, size))
        return View("slice", (dim, start, draw(st.integers(start, size)), draw(st.integers(1, 3))))
    if kind == "select" and size > 0:
        return View("select", (dim, draw(st.integers(0, size - 1))))
    if kind in ("narrow", "offset") and size > 0:
        start = draw(st.integers(0, size - 1))
        return View("narrow", (dim, start, draw(st.integers(1, size - start))))
    if kind == "diagonal" and tensor.dim() > 1:
        other = draw(st.integers(0, tensor.dim() - 1).filter(lambda d: d != dim))
        return View("diagonal", (draw(st.integers(-1, 1)), dim, other))
    if kind == "expand" and size == 1:
        return View("expand", tuple(draw(st.integers(1, 9)) if d == dim else s for d, s in enumerate(tensor.shape)))
    if kind == "unfold" and size > 1 and tensor.dim() < 6 and tensor.numel() < 4000:
        window = draw(st.integers(1, min(size, 4)))
        return View("unfold", (dim, window, draw(st.integers(1, 3))))
    if kind == "as_strided" and tensor.numel() > 0:
        shape = draw(shapes(0, 3, 400))
        strides = [draw(st.integers(0, 5)) for _ in shape]
        reach = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
        elements = tensor.untyped_storage().nbytes() // tensor.element_size()
        return View("as_strided", (shape, tuple(strides), tensor.storage_offset())) if reach < elements else None
    return None


@st.composite
def sources(draw, dtypes=DTYPES, min_dims=0, max_dims=5, writable=False, shape=None, ordinary=False):
    """shape: of the result, when it must be one: the base is then larger, and is sliced and permuted. ordinary: no
    special values."""
    special = not ordinary and draw(st.integers(0, 4)) == 0
    dtype, seed, offset = (
        draw(st.sampled_from(dtypes)),
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from([0, 0, 1, 3, 8])),
    )
    if shape is not None:
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from([1, 1, 2, 3])) for _ in shape]
        starts = [draw(st.sampled_from([0, 0, 1, 2])) for _ in shape]
        base = tuple(shape[d] * steps[d] + starts[d] for d in order)
        views = [
            View("slice", (at, starts[d], starts[d] + shape[d] * steps[d], steps[d])) for at, d in enumerate(order)
        ]
        back = tuple(order.index(d) for d in range(len(shape)))
        return Source(base, dtype, seed, offset, (*views, View("permute", back)) if shape else (), special)
    source = Source(draw(shapes(min_dims, max_dims)), dtype, seed, offset, (), special)
    for _ in range(draw(st.integers(0, 3))):
        tensor = source.on("cpu")[0]
        view = draw(_step(tensor, writable))
        if view is not None and min_dims <= view(tensor).dim() <= max_dims and view(tensor).numel() <= 40000:
            source = Source(source.shape, dtype, seed, offset, (*source.views, view), special)
    return source


@st.composite
def broadcast_to(draw, shape, dtypes=DTYPES, ordinary=False):
    """A source whose shape broadcasts to the given one."""
    kept = tuple(size if draw(st.integers(0, 3)) else 1 for size in shape)
    kept = kept[draw(st.sampled_from([0, 0, 0, 1, 2])) :]
    return draw(sources(dtypes, shape=kept, ordinary=ordinary))
