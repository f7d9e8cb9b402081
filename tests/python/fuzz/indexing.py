"""Reading and writing by index: one small strategy per kind of operator, listed in READS and WRITES."""

from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st

from .program import Program
from .views import FLOATING, Source, broadcast_to, shapes, sources


@dataclass
class Target:
    """The tensor that is read or written, and a dimension of it."""

    source: Source
    shape: tuple
    dim: int

    @property
    def size(self):
        return self.shape[self.dim]

    @property
    def before(self):
        return (slice(None),) * self.dim

    def with_size(self, *sizes):
        """The shape with others instead of the dimension's size."""
        return (*self.shape[: self.dim], *sizes, *self.shape[self.dim + 1 :])

    def values(self, draw, shape):
        return draw(sources((self.source.dtype,), shape=tuple(shape)))


def _index(draw, shape, size, negative=False):
    """Integers below size; none where size is 0."""
    if size == 0:
        shape = (0,)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    return torch.randint(-size if negative else 0, max(1, size), tuple(shape), generator=generator)


def _distinct(draw, count, size):
    """Different integers below size: the order of writes to one place is not defined."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(draw(st.integers(0, 2**16))))[:count]


def _count(draw):
    return draw(st.integers(0, 9))


# ---- reading


def _cat(draw, target):
    other = draw(sources(shape=target.shape))
    return Program(f"cat(dim={target.dim})", lambda a, b: torch.cat([a, b, a], target.dim), [target.source, other])


def _roll(draw, target):
    shift = draw(st.integers(-5, 5))
    return Program(f"roll({shift}, {target.dim})", lambda a: a.roll(shift, target.dim), [target.source])


def _nonzero(draw, target):
    return Program("nonzero", torch.nonzero, [target.source])


def _masked_select(draw, target):
    return Program(
        "masked_select", torch.masked_select, [target.source, draw(broadcast_to(target.shape, (torch.bool,)))]
    )


def _mask(draw, target):
    """A mask of the leading dimensions."""
    mask = draw(sources((torch.bool,), shape=target.shape[: target.dim + 1]))
    return Program("a[mask]", lambda a, mask: a[mask], [target.source, mask])


def _take(draw, target):
    index = _index(draw, draw(shapes(0, 2, 60)), torch.Size(target.shape).numel(), True)
    return Program("take", lambda a, index: a.take(index), [target.source], {"index": index})


def _advanced(draw, target):
    index = _index(draw, draw(shapes(0, 2, 60)), target.size, True)
    return Program(
        f"a[:{target.dim}, index]", lambda a, index: a[(*target.before, index)], [target.source], {"index": index}
    )


def _advanced_pair(draw, target):
    """Two index tensors that broadcast, side by side or with a slice between."""
    other = draw(st.integers(0, len(target.shape) - 1))
    first, second = sorted((target.dim, other))
    if first == second or 0 in (target.shape[first], target.shape[second]):
        return _advanced(draw, target)
    i = _index(draw, (3, 1), target.shape[first], True)
    j = _index(draw, (draw(st.integers(1, 4)),), target.shape[second], True)
    between = (slice(None),) * (second - first - 1)
    at = (slice(None),) * first
    return Program(
        f"a[:{first}, i, :{second}, j]", lambda a, i, j: a[(*at, i, *between, j)], [target.source], {"i": i, "j": j}
    )


def _gather(draw, target):
    smaller = tuple(draw(st.integers(0, n)) for n in target.shape)
    index = _index(draw, (*smaller[: target.dim], _count(draw), *smaller[target.dim + 1 :]), target.size)
    if target.size == 0:
        index = index.reshape([0] * len(target.shape))
    return Program(
        f"gather({target.dim})", lambda a, index: a.gather(target.dim, index), [target.source], {"index": index}
    )


def _take_along_dim(draw, target):
    if target.size == 0:
        return _index_select(draw, target)
    index = _index(draw, target.with_size(_count(draw)), target.size)
    return Program(
        f"take_along_dim({target.dim})",
        lambda a, index: torch.take_along_dim(a, index, target.dim),
        [target.source],
        {"index": index},
    )


def _index_select(draw, target):
    index = _index(draw, (_count(draw),), target.size)
    return Program(
        f"index_select({target.dim})",
        lambda a, index: a.index_select(target.dim, index),
        [target.source],
        {"index": index},
    )


def _embedding(draw, target):
    table = draw(sources(FLOATING, shape=(draw(st.integers(1, 40)), draw(st.integers(1, 70)))))
    index = _index(draw, draw(shapes(0, 3, 60)), table.on("cpu")[0].shape[0])
    return Program("embedding", lambda a, index: torch.nn.functional.embedding(index, a), [table], {"index": index})


def _tril(draw, target):
    name, diagonal = draw(st.sampled_from(("tril", "triu"))), draw(st.integers(-3, 3))
    if len(target.shape) < 2:
        return Program("diag", lambda a: torch.diag_embed(a, diagonal), [target.source])
    return Program(f"{name}({diagonal})", lambda a: getattr(a, name)(diagonal), [target.source])


# ---- writing


def _masked_fill(draw, target):
    mask = draw(broadcast_to(target.shape, (torch.bool,)))
    return Program("masked_fill_", lambda a, mask: a.masked_fill_(mask, 1), [target.source, mask], writes=True)


def _masked_scatter(draw, target):
    mask, values = draw(sources((torch.bool,), shape=target.shape)), target.values(draw, target.shape)
    return Program(
        "masked_scatter_", lambda a, mask, v: a.masked_scatter_(mask, v), [target.source, mask, values], writes=True
    )


def _set_slice(draw, target):
    values = draw(broadcast_to(target.with_size(len(range(1, target.size, 2))), (target.source.dtype,)))

    def assign(a, values):
        a[(*target.before, slice(1, None, 2))] = values
        return a

    return Program(f"a[:{target.dim}, 1::2] = values", assign, [target.source, values], writes=True)


def _put_at(draw, target, accumulate):
    index = _index(draw, draw(shapes(0, 2, 60)), target.size, True)
    if not accumulate and index.numel():
        index = torch.unique(index % target.size)
    values = draw(broadcast_to(target.with_size(*index.shape), (target.source.dtype,)))

    def put(a, v, index):
        every = [
            torch.arange(n, device=a.device).view([-1] + [1] * (target.dim - d - 1 + index.dim()))
            for d, n in enumerate(a.shape[: target.dim])
        ]
        return a.index_put_((*every, index), v, accumulate=accumulate)

    return Program(
        f"index_put_(accumulate={accumulate})",
        put,
        [target.source, values],
        {"index": index},
        writes=True,
        reduces=accumulate,
    )


def _index_put(draw, target):
    return _put_at(draw, target, False)


def _index_put_accumulate(draw, target):
    return _put_at(draw, target, True)


def _flat_put(draw, target):
    index = _distinct(draw, _count(draw), torch.Size(target.shape).numel())
    return Program(
        "put_",
        lambda a, v, index: a.put_(index, v),
        [target.source, target.values(draw, index.shape)],
        {"index": index},
        writes=True,
    )


def _scatter(draw, target):
    smaller = tuple(draw(st.integers(0, n)) for n in target.shape)
    order = torch.rand(
        *smaller[: target.dim], target.size, *smaller[target.dim + 1 :], generator=torch.Generator().manual_seed(1)
    ).argsort(target.dim)
    index = order.narrow(target.dim, 0, smaller[target.dim])
    return Program(
        f"scatter_({target.dim})",
        lambda a, v, index: a.scatter_(target.dim, index, v),
        [target.source, target.values(draw, smaller)],
        {"index": index},
        True,
    )


def _scatter_add(draw, target):
    if target.size == 0:
        return _index_fill(draw, target)
    smaller = [draw(st.integers(0, n)) for n in target.shape]
    smaller[target.dim] = _count(draw)
    index = _index(draw, smaller, target.size)
    sources_ = [target.source, target.values(draw, smaller)]
    return Program(
        f"scatter_add_({target.dim})",
        lambda a, v, index: a.scatter_add_(target.dim, index, v),
        sources_,
        {"index": index},
        True,
        True,
    )


def _scatter_reduce(draw, target):
    if target.size == 0:
        return _index_fill(draw, target)
    how, include = draw(st.sampled_from(("sum", "prod", "mean", "amax", "amin"))), draw(st.booleans())
    smaller = [draw(st.integers(0, n)) for n in target.shape]
    smaller[target.dim] = _count(draw)
    index = _index(draw, smaller, target.size)
    sources_ = [target.source, target.values(draw, smaller)]
    return Program(
        f"scatter_reduce_({target.dim}, {how}, include_self={include})",
        lambda a, v, index: a.scatter_reduce_(target.dim, index, v, how, include_self=include), sources_,
        {"index": index}, True, True,
    )  # fmt: skip


def _index_fill(draw, target):
    index = _index(draw, (_count(draw),), target.size)
    return Program(
        f"index_fill_({target.dim})",
        lambda a, index: a.index_fill_(target.dim, index, 1),
        [target.source],
        {"index": index},
        writes=True,
    )


def _index_copy(draw, target):
    index = _distinct(draw, _count(draw), target.size)
    values = target.values(draw, target.with_size(len(index)))
    return Program(
        f"index_copy_({target.dim})",
        lambda a, v, index: a.index_copy_(target.dim, index, v),
        [target.source, values],
        {"index": index},
        True,
    )


def _index_add(draw, target):
    index, alpha = _index(draw, (_count(draw),), target.size), draw(st.sampled_from([1, 1, 2]))
    sources_ = [target.source, target.values(draw, target.with_size(len(index)))]
    if target.source.dtype.is_complex:  # the CPU multiplies by alpha + 0i, which makes NaN of infinities
        sources_ = [replace(source, special=False) for source in sources_]
    return Program(
        f"index_add_({target.dim}, {alpha})",
        lambda a, v, index: a.index_add_(target.dim, index, v, alpha=alpha),
        sources_,
        {"index": index},
        True,
        True,
    )


READS = (
    _cat,
    _roll,
    _nonzero,
    _masked_select,
    _mask,
    _take,
    _advanced,
    _advanced_pair,
    _gather,
    _take_along_dim,
    _index_select,
    _embedding,
    _tril,
)
WRITES = (
    _masked_fill, _masked_scatter, _set_slice, _index_put, _index_put_accumulate, _flat_put, _scatter, _scatter_add,
    _scatter_reduce, _index_fill, _index_copy, _index_add,
)  # fmt: skip


@st.composite
def indexing(draw):
    kind = draw(st.sampled_from(READS + WRITES))
    source = draw(sources(min_dims=1, max_dims=4, writable=kind in WRITES))
    shape = tuple(source.on("cpu")[0].shape)
    return kind(draw, Target(source, shape, draw(st.integers(0, len(shape) - 1))))
