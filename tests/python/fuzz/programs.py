"""What is run on the tensors: one strategy per family. A program is data: it runs on any device and prints itself."""

from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

from .views import DTYPES, FLOATING, INTEGRAL, broadcast_to, shapes, sources


@dataclass
class Program:
    """name(sources..., arguments...), possibly written into a view: outcome(device) is what to compare."""

    name: str
    function: object = field(repr=False)
    sources: list
    arguments: dict = field(default_factory=dict)
    writes: bool = False  # the first source is written: its whole storage is compared
    reduces: bool = False  # adds up: half types may round differently

    def outcome(self, device):
        placed = [source.on(device) for source in self.sources]
        result = self.function(*[tensor for tensor, _ in placed], **_on(self.arguments, device))
        return (result, placed[0][1]) if self.writes else result


def _on(arguments, device):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


UNARY = (
    "abs", "neg", "sign", "square", "sqrt", "exp", "sin", "tanh", "sigmoid", "floor", "ceil", "round", "trunc", "reciprocal", "logical_not", "isnan",
    "log1p", "erf", "relu", "sgn", "isfinite",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "eq", "lt", "ge", "fmod", "remainder", "floor_divide", "atan2", "copysign", "logical_and",
    "bitwise_and", "bitwise_xor",
)  # fmt: skip
INPLACE = ("add_", "mul_", "sub_", "copy_", "div_", "fmod_", "eq_")


def _nonzero(name):
    """Integers are not divided by zero, which traps on a CPU."""
    if name.rstrip("_") not in ("fmod", "remainder", "floor_divide"):
        return getattr(torch, name) if hasattr(torch, name) else lambda a, b: getattr(a, name)(b)
    return lambda a, b: getattr(a, name)(torch.where(b == 0, torch.ones_like(b), b))


def _partners(draw, source):
    """dtypes for a second operand: mostly the first one's, so that the number of programs to compile stays small."""
    return (source.dtype,) if draw(st.integers(0, 4)) else (torch.float32, torch.int64, torch.bool)


@st.composite
def elementwise(draw):
    kind = draw(st.sampled_from(["unary", "binary", "binary", "in place", "ternary", "to", "scalar"]))
    if kind == "unary":
        name = draw(st.sampled_from(UNARY))
        return Program(name, getattr(torch, name), [draw(sources())])
    if kind == "to":
        dtype = draw(st.sampled_from(DTYPES))
        return Program(f"to({dtype})", lambda a: a.to(dtype), [draw(sources())])
    if kind == "scalar":
        name, number = draw(st.sampled_from(["add", "mul", "sub", "pow", "clamp", "eq", "fill_"])), draw(st.sampled_from([2, 3, 0.5, -1, True]))
        source = draw(sources(writable=name == "fill_"))
        return Program(f"{name}({number})", lambda a: getattr(a, name)(number), [source], writes=name == "fill_")
    shape = draw(shapes(limit=4000))
    if kind == "in place":
        name = draw(st.sampled_from(INPLACE))
        target = draw(sources(shape=shape))
        return Program(name, _nonzero(name), [target, draw(broadcast_to(shape, _partners(draw, target)))], writes=True)
    a = draw(broadcast_to(shape))
    b = draw(broadcast_to(shape, _partners(draw, a)))
    if kind == "ternary":
        name = draw(st.sampled_from(["where", "addcmul", "lerp"]))
        condition = draw(broadcast_to(shape, (torch.bool,) if name == "where" else _partners(draw, a)))
        return Program(name, getattr(torch, name), [condition, a, b])
    name = draw(st.sampled_from(BINARY))
    return Program(name, _nonzero(name), [a, b])


REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "var", "norm", "logsumexp", "count_nonzero")
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "max", "min", "sort", "flip", "cummax")


@st.composite
def reduction(draw):
    name = draw(st.sampled_from(REDUCTIONS + ALONG))
    source = draw(sources(min_dims=1))
    dims = source.on("cpu")[0].dim()
    dim = draw(st.integers(-dims, dims - 1))
    if name in ALONG:
        if name == "sort":
            return Program(name, lambda a: torch.sort(a, dim, stable=True), [source])
        if name == "flip":
            return Program(name, lambda a: a.flip(dim), [source])
        values_only = (lambda a: getattr(a, name)(dim)[0]) if name in ("max", "min", "cummax") else lambda a: getattr(a, name)(dim)
        return Program(f"{name}(dim={dim})", values_only, [source], reduces=True)
    if name in ("argmax", "argmin"):
        # values at the index: equal elements may be found anywhere
        return Program(f"{name}(dim={dim})", lambda a: a.gather(dim, getattr(a, name)(dim, keepdim=True)), [source])
    chosen = draw(st.one_of(st.just((dim,)), st.lists(st.integers(0, dims - 1), min_size=1, max_size=dims, unique=True).map(tuple)))
    keep = draw(st.booleans())
    if name in ("prod",):
        return Program(f"{name}(dim={dim}, keepdim={keep})", lambda a: a.prod(dim, keepdim=keep), [source], reduces=True)
    if name in ("any", "all", "count_nonzero"):
        return Program(f"{name}(dim={chosen})", lambda a: getattr(a, name)(dim=chosen), [source])
    options = {} if name == "logsumexp" and not keep else {"keepdim": keep}
    return Program(f"{name}(dim={chosen}, {options})", lambda a: getattr(a, name)(dim=chosen, **options), [source], reduces=True)


def _index(draw, shape, size, negative=False):
    seed = draw(st.integers(0, 2**16))
    return torch.randint(-size if negative else 0, size, shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def indexing(draw):
    name = draw(st.sampled_from([
        "index_select", "gather", "take", "advanced", "advanced_2", "masked", "index_put", "index_put_accumulate", "index_add", "index_copy",
        "scatter", "scatter_add", "masked_fill", "masked_select", "cat", "roll", "nonzero", "embedding", "index_fill",
    ]))  # fmt: skip
    writes = name in ("index_put", "index_put_accumulate", "index_add", "index_copy", "scatter", "scatter_add", "masked_fill", "index_fill")
    source = draw(sources(min_dims=1, max_dims=4, writable=writes))
    tensor = source.on("cpu")[0]
    dim = draw(st.integers(0, tensor.dim() - 1))
    size, count = tensor.shape[dim], draw(st.integers(0, 9))
    if name in ("cat", "roll", "nonzero", "masked_select", "masked", "masked_fill"):
        pass
    elif size == 0 or tensor.numel() == 0:
        name, writes = "nonzero", False
    shape = list(tensor.shape)
    if name == "nonzero":
        return Program(name, torch.nonzero, [source])
    if name == "cat":
        other = draw(sources(shape=tuple(tensor.shape)))
        return Program(f"cat(dim={dim})", lambda a, b: torch.cat([a, b, a], dim), [source, other])
    if name == "roll":
        shift = draw(st.integers(-5, 5))
        return Program(f"roll({shift}, {dim})", lambda a: a.roll(shift, dim), [source])
    if name in ("masked_select", "masked"):
        mask = draw(broadcast_to(tuple(shape), (torch.bool,)) if name == "masked_select" else sources((torch.bool,), shape=tuple(shape)))
        return Program(name, torch.masked_select if name == "masked_select" else (lambda a, m: a[m]), [source, mask])
    if name == "masked_fill":
        mask = draw(broadcast_to(tuple(shape), (torch.bool,)))
        return Program(name, lambda a, m: a.masked_fill_(m, 1), [source, mask], writes=True)
    if name == "take":
        index = _index(draw, draw(shapes(0, 2, 60)), tensor.numel(), True)
        return Program(name, lambda a, index: a.take(index), [source], {"index": index})
    if name in ("advanced", "advanced_2", "index_put", "index_put_accumulate"):
        index = _index(draw, draw(shapes(0, 2, 60)), size, True)
        pick = (slice(None),) * dim
        if name == "advanced_2" and dim + 1 < tensor.dim() and shape[dim + 1]:
            second = _index(draw, tuple(index.shape), shape[dim + 1])
            return Program(f"[:{dim}, index, index]", lambda a, index, second: a[(*pick, index, second)], [source], {"index": index, "second": second})
        if name.startswith("advanced"):
            return Program(f"[:{dim}, index]", lambda a, index: a[(*pick, index)], [source], {"index": index})
        if name == "index_put" and index.numel():  # every place once: the order of writes is not defined
            index = torch.unique(index % size)
        accumulate = name == "index_put_accumulate"
        at = (None,) * dim
        value = draw(broadcast_to((*shape[:dim], *index.shape, *shape[dim + 1 :]), (source.dtype,)))

        def put(a, v, index):
            before = [torch.arange(n, device=a.device).view(*[-1 if i == d else 1 for i in range(dim)], *[1] * index.dim()) for d, n in enumerate(a.shape[:dim])]
            return a.index_put_((*before, index[at] if dim else index), v, accumulate=accumulate)

        return Program(name, put, [source, value], {"index": index}, writes=True, reduces=accumulate)
    if name in ("gather", "scatter", "scatter_add"):
        smaller = tuple(draw(st.integers(1, n)) if i != dim else (draw(st.integers(1, 9)) if name != "scatter" else draw(st.integers(1, n))) for i, n in enumerate(shape))
        index = _index(draw, smaller, size)
        if name == "gather":
            return Program(name, lambda a, index: a.gather(dim, index), [source], {"index": index})
        if name == "scatter":
            index = torch.rand(*[n if i != dim else size for i, n in enumerate(smaller)], generator=torch.Generator().manual_seed(1)).argsort(dim).narrow(dim, 0, smaller[dim])
        values = draw(sources((source.dtype,), shape=smaller))
        return Program(f"{name}(dim={dim})", lambda a, v, index: getattr(a, name + "_")(dim, index, v), [source, values], {"index": index}, True, name != "scatter")
    index = _index(draw, (count,), size)
    if name == "index_select":
        return Program(f"{name}(dim={dim})", lambda a, index: a.index_select(dim, index), [source], {"index": index})
    if name == "embedding":
        if tensor.dim() != 2 or source.dtype not in FLOATING:
            return Program("index_select(0)", lambda a, index: a.index_select(0, index % a.shape[0]), [source], {"index": index})
        return Program(name, lambda a, index: torch.nn.functional.embedding(index % a.shape[0], a), [source], {"index": index})
    if name == "index_fill":
        return Program(name, lambda a, index: a.index_fill_(dim, index, 1), [source], {"index": index}, writes=True)
    if name == "index_copy":
        index = torch.randperm(size, generator=torch.Generator().manual_seed(count))[:count]
    values = draw(sources((source.dtype,), shape=(*shape[:dim], len(index), *shape[dim + 1 :])))
    return Program(f"{name}(dim={dim})", lambda a, v, index: getattr(a, name + "_")(dim, index, v), [source, values], {"index": index}, True, True)


@st.composite
def matrix_product(draw):
    name = draw(st.sampled_from(["matmul", "addmm", "linear", "bmm", "matmul_vector", "outer", "addmm_out"]))
    dtype = (draw(st.sampled_from([*FLOATING, torch.float32, torch.float32, *INTEGRAL[:2], torch.complex64])),)
    n, m, k = (draw(sizes) for sizes in (st.sampled_from([1, 2, 5, 16, 33, 70]),) * 3)
    k = 0 if draw(st.integers(0, 30)) == 0 else k
    batch = draw(st.sampled_from([(), (), (2,), (3, 2), (1,)]))
    if name == "matmul":
        a, b = draw(sources(dtype, shape=(*batch, n, k))), draw(sources(dtype, shape=(*batch[draw(st.integers(0, 1)) :], k, m)))
        return Program(name, torch.matmul, [a, b], reduces=True)
    if name == "bmm":
        return Program(name, torch.bmm, [draw(sources(dtype, shape=(3, n, k))), draw(sources(dtype, shape=(3, k, m)))], reduces=True)
    if name == "matmul_vector":
        return Program(name, torch.matmul, [draw(sources(dtype, shape=(*batch, n, k))), draw(sources(dtype, shape=(k,)))], reduces=True)
    if name == "outer":
        return Program(name, torch.outer, [draw(sources(dtype, shape=(n,))), draw(sources(dtype, shape=(m,)))])
    a, b = draw(sources(dtype, shape=(n, k))), draw(sources(dtype, shape=(k, m)))
    if name == "linear":
        dtype = dtype if dtype[0] in FLOATING else (torch.float32,)
        a, w, bias = draw(sources(dtype, shape=(*batch, n, k))), draw(sources(dtype, shape=(m, k))), draw(sources(dtype, shape=(m,)))
        return Program(name, torch.nn.functional.linear, [a, w, bias], reduces=True)
    if name == "addmm_out":
        target = draw(sources(dtype, shape=(n, m)))
        return Program(name, lambda c, a, b: torch.mm(a, b, out=c), [target, a, b], writes=True, reduces=True)
    alpha, beta = draw(st.sampled_from([1, 2])), draw(st.sampled_from([0, 1, 3]))
    bias = draw(broadcast_to((n, m), dtype))
    return Program(f"addmm({beta}, {alpha})", lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), [bias, a, b], reduces=True)


FAMILIES = {"elementwise": elementwise, "reduction": reduction, "indexing": indexing, "matrix_product": matrix_product}
