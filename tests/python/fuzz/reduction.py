"""Reductions, scans and sorts along dimensions."""

from dataclasses import replace

import torch
from hypothesis import strategies as st

from .program import Program
from .views import sources


def _dims(draw, source):
    """(number of dimensions, one of them, counted from either end)"""
    count = source.on("cpu")[0].dim()
    return count, draw(st.integers(-count, count - 1))


def _several(draw, count, dim):
    return draw(
        st.one_of(
            st.just((dim,)), st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True).map(tuple)
        )
    )


def _finite_if_complex(source):
    """The CPU divides a complex sum by n + 0i, which makes NaN of infinities."""
    return replace(source, special=False) if source.dtype.is_complex else source


SUMS = ("sum", "nansum", "mean", "nanmean", "var", "std", "norm", "logsumexp")
EXACT = ("amax", "amin", "any", "all", "count_nonzero")
SCANS = ("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax")
PAIRS = ("max", "min", "cummax", "cummin", "median", "nanmedian", "mode")


def _of_several(draw):
    name = draw(st.sampled_from(SUMS + EXACT))
    source = _finite_if_complex(draw(sources(min_dims=1)))
    chosen, keep = _several(draw, *_dims(draw, source)), draw(st.booleans())
    options = {"dim": chosen} if name == "count_nonzero" else {"dim": chosen, "keepdim": keep}
    return Program(f"{name}({options})", lambda a: getattr(a, name)(**options), [source], reduces=name in SUMS)


def _whole(draw):
    name = draw(
        st.sampled_from(("sum", "mean", "max", "min", "any", "all", "argmax", "var", "norm", "count_nonzero", "median"))
    )
    source = _finite_if_complex(draw(sources()))
    if name == "argmax":
        return Program("argmax()", lambda a: a.reshape(-1)[a.argmax()], [source])
    return Program(f"{name}()", lambda a: getattr(a, name)(), [source], reduces=True)


def _product(draw):
    # seven factors at most: where products overflow on the way depends on the order and on the type of the sum
    source = draw(sources(shape=tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))))
    (_, dim), keep = _dims(draw, source), draw(st.booleans())
    return Program(f"prod(dim={dim}, keepdim={keep})", lambda a: a.prod(dim, keepdim=keep), [source], reduces=True)


def _place(draw):
    """argmax, argmin: the values there, since equal elements may be found anywhere."""
    name, source = draw(st.sampled_from(("argmax", "argmin"))), draw(sources(min_dims=1))
    _, dim = _dims(draw, source)
    return Program(f"{name}(dim={dim})", lambda a: a.gather(dim, getattr(a, name)(dim, keepdim=True)), [source])


def _scan(draw):
    name, source = draw(st.sampled_from(SCANS)), draw(sources(min_dims=1))
    if name == "cumprod" and source.dtype == torch.float16 and max(source.shape, default=0) > 7:
        source = replace(
            source, dtype=torch.float32
        )  # where products overflow on the way depends on the order, as in _product
    _, dim = _dims(draw, source)
    return Program(f"{name}(dim={dim})", lambda a: getattr(a, name)(dim), [source], reduces=True)


def _pair(draw):
    name, source = draw(st.sampled_from(PAIRS)), draw(sources(min_dims=1))
    if name in (
        "nanmedian",
        "mode",
    ):  # for NaN alone in an expanded tensor the CPU reads behind its end; its mode sorts NaN by no order
        source = replace(source, special=False)
    _, dim = _dims(draw, source)
    return Program(f"{name}(dim={dim}).values", lambda a: getattr(a, name)(dim)[0], [source])


def _sorted(draw):
    source, descending = draw(sources(min_dims=1)), draw(st.booleans())
    _, dim = _dims(draw, source)
    return Program(
        f"sort({dim}, {descending})", lambda a: torch.sort(a, dim=dim, descending=descending, stable=True), [source]
    )


def _leading(draw):
    """topk and kthvalue: the values."""
    source, largest = draw(sources(min_dims=1)), draw(st.booleans())
    _, dim = _dims(draw, source)
    size = source.on("cpu")[0].shape[dim]
    k = draw(st.integers(min(1, size), size))
    if draw(st.booleans()):
        return Program(f"topk({k}, {dim}, {largest}).values", lambda a: a.topk(k, dim, largest)[0], [source])
    return Program(f"kthvalue({k}, {dim}).values", lambda a: a.kthvalue(k, dim)[0], [source])


def _flipped(draw):
    source = draw(sources(min_dims=1))
    chosen = _several(draw, *_dims(draw, source))
    return Program(f"flip({chosen})", lambda a: a.flip(chosen), [source])


def _unique(draw):
    # every NaN is a value of its own, in any order
    source, name = draw(sources(ordinary=True)), draw(st.sampled_from(("unique", "unique_consecutive")))
    return Program(name, lambda a: getattr(torch, name)(a, return_inverse=True, return_counts=True), [source])


KINDS = (
    _of_several,
    _of_several,
    _of_several,
    _whole,
    _product,
    _place,
    _scan,
    _scan,
    _pair,
    _sorted,
    _leading,
    _flipped,
    _unique,
)


@st.composite
def reduction(draw):
    return draw(st.sampled_from(KINDS))(draw)
