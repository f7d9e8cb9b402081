"""The checks of one operator and dtype: functions (row of the database, dtype, Recorder), listed in CHECKS.

A check runs the same procedure on the CPU and on `ocl` and has the recorder compare the outcomes: results or exceptions.
"""

import itertools
import re
import zlib

import torch
from torch.utils import _pytree

from .cases import full_name
from .compare import Mismatch, Raised, compare, compare_distributions, outcome, strides_differ
from .place import CHANNELS_LAST, GARBAGE, LAYOUTS, Unsupported, place_all, widened

DEVICE = "ocl"
LIMITS = {"values": 60, "layouts": 10, "gradient": 16, "second_gradient": 3, "out": 6, "inplace": 8, "zero_size": 4, "errors": 40}

# Refuse a CPU scalar on CUDA too.
NO_CPU_SCALARS = ("complex", "polar", "logical_and", "logical_or", "logical_xor")

# Contents are not defined.
UNINITIALIZED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")


# Their samples do not always name a device.
FACTORIES = ("arange", "linspace", "logspace", "full", "ones", "zeros", "eye", "scalar_tensor", "tril_indices", "triu_indices")


class NotApplicable(Exception):
    pass


class Recorder:
    """Collects comparisons of one check: how many, the first failures, the operators that ran on the CPU."""

    def __init__(self):
        self.compared, self.failures, self.fallbacks, self.skipped = 0, [], {}, 0

    def compare(self, description, procedure, precise=None, random=None, may_refuse=False):
        """procedure(device) on both devices. may_refuse: outputs that overlap may be refused where the CPU writes them."""
        try:
            expected = outcome(lambda: procedure("cpu"))
            if isinstance(expected, Raised) and isinstance(expected.error, Unsupported):
                self.skipped += 1
                return None
            torch.ocl.reset_fallbacks()
            actual = on_device(procedure)
            for name, count in torch.ocl.fallbacks().items():
                self.fallbacks[name] = self.fallbacks.get(name, 0) + count
            self.compared += 1
            if may_refuse and isinstance(actual, Raised) and str(actual.error).startswith("unsupported operation: "):
                return expected
            compare(actual, expected, DEVICE, (lambda: precise("cpu")) if precise else None)
            return expected
        except Mismatch as mismatch:
            if random is not None and random():
                return None
            self.failures.append(f"{description}: {mismatch}")
            return None


def on_device(procedure):
    """The outcome of procedure(DEVICE), with the errors that kernels report when the device is synchronized."""

    def waited():
        result = procedure(DEVICE)
        torch.ocl.synchronize()
        return result

    result = outcome(waited)
    if isinstance(result, Raised):  # nothing of this call may reach the next one
        outcome(torch.ocl.synchronize)
    return result


def seed_of(text):
    return zlib.crc32(text.encode())


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
    return function(placed[0], *placed[1], **placed[2])


def _tensors(tree):
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _has_channels(args):
    return any(t.dim() in CHANNELS_LAST for t in _tensors(args))


def is_random(run):
    """Whether run() gives other values under another seed on the CPU."""
    first = None
    for seed in range(12):
        torch.manual_seed(seed)
        result = outcome(run)
        if first is None:
            first = result
        try:
            compare(result, first, "cpu")
        except Mismatch:
            return True
    return False


def values(op, dtype, record, layouts=("plain",), limit="values"):
    for sample, layout in itertools.product(samples_of(op, dtype, LIMITS[limit]), layouts):
        args = arguments(sample, op)
        if layout == "channels_last" and not _has_channels(args):
            continue

        def procedure(device, args=args, layout=layout):
            return call(op.op, place_all(args, device, layout))

        def same_distribution(procedure=procedure, sample=sample):
            if op.name in UNINITIALIZED:
                return True
            if not is_random(lambda: procedure("cpu")):
                return False
            runs = [[_pytree.tree_leaves(procedure(device)) for _ in range(40)] for device in (DEVICE, "cpu")]
            runs = [[[leaf for leaf in run if isinstance(leaf, torch.Tensor)] for run in side] for side in runs]
            compare_distributions(*runs)
            return True

        def precise(device, args=args):
            return call(op.op, place_all(widened(args), device))

        record.compare(f"{describe(sample)} {layout}", procedure, precise, random=same_distribution)


def layouts(op, dtype, record):
    values(op, dtype, record, LAYOUTS[1:], "layouts")


def strides(op, dtype, record):
    """Results are laid out as the CPU's."""
    for sample, layout in itertools.product(samples_of(op, dtype, LIMITS["layouts"]), ("plain", "channels_last")):
        args = arguments(sample, op)
        if layout == "channels_last" and not _has_channels(args):
            continue

        def procedure(device, args=args, layout=layout):
            return call(op.op, place_all(args, device, layout))

        expected, actual = outcome(lambda: procedure("cpu")), outcome(lambda: procedure(DEVICE))
        if isinstance(expected, Raised) or isinstance(actual, Raised):
            continue
        record.compared += 1
        if text := strides_differ(actual, expected):
            record.failures.append(f"{describe(sample)} {layout}: {text}")


def out(op, dtype, record):
    """out= of the right shape, strided, empty, and of another dtype."""
    if not op.supports_out:
        raise NotApplicable
    for sample in samples_of(op, dtype, LIMITS["out"]):
        args = arguments(sample, op)
        expected = outcome(lambda: call(op.op, place_all(args, "cpu")))
        if isinstance(expected, Raised) or is_random(lambda: call(op.op, place_all(args, "cpu"))):
            continue
        single = isinstance(expected, torch.Tensor)
        if not single and not (isinstance(expected, tuple) and all(isinstance(t, torch.Tensor) for t in expected)):
            continue
        other = torch.int32 if dtype.is_floating_point or dtype.is_complex else torch.float64

        def make(device, kind, expected=expected, single=single, other=other):
            bases = []

            def one(t):
                if kind == "empty":
                    return torch.empty(0, dtype=t.dtype, device=device)
                if kind == "dtype":
                    return torch.zeros(t.shape, dtype=other if t.dtype != other else torch.int8, device=device)
                base = torch.full((*t.shape, 2) if kind == "strided" else t.shape, 77, dtype=t.dtype, device=device)
                if kind != "strided":
                    return base
                bases.append(base)
                return base[..., 0]

            return (one(expected) if single else tuple(one(t) for t in expected)), bases

        for kind in ("plain", "strided", "empty", "dtype"):

            def procedure(device, args=args, kind=kind, make=make):
                placed, (target, bases) = place_all(args, device), make(device, kind)
                result = call(lambda *a, **k: op.op(*a, out=target, **k), placed)
                if kind == "dtype":  # compared with the precision in which it was computed
                    pairs = zip(_tensors(result), _tensors(expected))
                    return [(r.dtype, r.to(e.dtype)) for r, e in pairs]
                same = all(r is t for r, t in zip(_tensors(result), _tensors(target)))
                kept = [t for t in _tensors(target) if t.numel() and kind != "empty"]
                strides = [[stride for stride, size in zip(t.stride(), t.shape) if size > 1] for t in kept]
                return result, same, strides, [bool((base[..., 1] == base.new_full((), 77)).all()) for base in bases]

            def precise(device, args=args):
                return call(op.op, place_all(widened(args), device))

            record.compare(f"{describe(sample)} out={kind}", procedure, precise)


def inplace(op, dtype, record):
    """The in-place variant, also on a strided tensor (nothing between its elements may change) and on an expanded one (refused)."""
    variant = op.inplace_variant
    if variant is None:
        raise NotApplicable
    for sample, kind in itertools.product(samples_of(op, dtype, LIMITS["inplace"]), ("plain", "strided", "expanded")):
        if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor) or sample.input.dim() == 0 and kind != "plain":
            continue
        args = arguments(sample, op)

        def procedure(device, args=args, kind=kind):
            placed = place_all(args, device, "strided" if kind == "strided" else "plain")
            target = placed[0]
            if kind == "expanded":
                target = target[:1].expand((max(2, target.shape[0]), *target.shape[1:]))
            result = variant(target, *placed[1], **placed[2])
            untouched = kind != "strided" or bool((flat(target)[1::2] == target.new_full((), GARBAGE)).all())
            return result, result is target, untouched

        if kind == "plain" and is_random(lambda: procedure("cpu")):
            return

        def precise(device, args=args):
            return call(op.op, place_all(widened(args), device))

        record.compare(f"{describe(sample)} {kind}", procedure, precise, may_refuse=kind == "expanded")


def flat(tensor):
    """The whole storage."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def overlap(op, dtype, record):
    """Reading and writing memory that overlaps in part is refused with the CPU's message."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    if not isinstance(op, (BinaryUfuncInfo, UnaryUfuncInfo)) or not op.supports_out:
        raise NotApplicable
    sample = samples_of(op, dtype, 1)[0]
    ones = torch.ones(4, dtype=dtype)
    result = outcome(lambda: op.op(ones, *[ones] * isinstance(op, BinaryUfuncInfo), **sample.kwargs))
    if not isinstance(result, torch.Tensor) or result.dtype != dtype:
        raise NotApplicable

    def procedure(device):
        base = torch.ones(9, dtype=dtype, device=device)
        others = [torch.ones(8, dtype=dtype, device=device)] * isinstance(op, BinaryUfuncInfo)
        op.op(base[1:], *others, out=base[:-1], **sample.kwargs)
        return base

    record.compare("out overlaps input", procedure, may_refuse=True)


def zero_size(op, dtype, record):
    """The samples cut to nothing along the first and the last dimension of every tensor."""
    for sample in samples_of(op, dtype, LIMITS["zero_size"]):
        for where in (0, -1):
            args = arguments(sample, op)

            def procedure(device, args=args, where=where):
                return call(op.op, place_all(args, device, change=lambda t: t.narrow(where, 0, 0) if t.dim() else t))

            if op.name in UNINITIALIZED:
                continue
            with torch.no_grad():
                if is_random(lambda: procedure("cpu")):
                    continue
                record.compare(f"{describe(sample)} empty dimension {where}", procedure)


def cpu_scalars(op, dtype, record):
    """A tensor of the device with a Python number and with a 0-dimensional CPU tensor, on either side."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo

    if not isinstance(op, BinaryUfuncInfo) or op.name in NO_CPU_SCALARS:
        raise NotApplicable
    sample = samples_of(op, dtype, 1)[0]
    torch.manual_seed(seed_of(op.name))
    from torch.testing import make_tensor

    x = make_tensor((3, 5), dtype=dtype, device="cpu", **op.lhs_make_tensor_kwargs)
    y = make_tensor((3, 5), dtype=dtype, device="cpu", **{"exclude_zero": True, **op.rhs_make_tensor_kwargs})
    for scalar_dtype in (dtype, torch.float64, torch.int64, torch.bool):
        zero = y.flatten()[3].to(scalar_dtype)
        one = x.flatten()[3].to(scalar_dtype)
        record.compare(f"tensor, CPU scalar {scalar_dtype}", lambda device: op.op(x.to(device), zero, **sample.kwargs))
        record.compare(f"CPU scalar {scalar_dtype}, tensor", lambda device: op.op(one, y.to(device), **sample.kwargs))
        record.compare(f"tensor, number {scalar_dtype}", lambda device: op.op(x.to(device), zero.item(), **sample.kwargs))


def promotion(op, dtype, record):
    """Two tensors of different dtypes, and of different categories with one of them 0-dimensional."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo

    if not isinstance(op, BinaryUfuncInfo):
        raise NotApplicable
    sample = samples_of(op, dtype, 1)[0]
    torch.manual_seed(seed_of(op.name))
    from torch.testing import make_tensor

    for other in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float64, torch.float16):
        if other == dtype or dtype.is_complex and other == torch.float16:  # complex32
            continue
        for shapes in (((3, 5), (3, 5)), ((3, 5), ()), ((), (3, 5))):
            a = make_tensor(shapes[0], dtype=dtype, device="cpu", low=1 if dtype.is_floating_point else None)
            b = make_tensor(shapes[1], dtype=other, device="cpu", low=1, high=5 if other != torch.bool else 2)
            record.compare(
                f"{dtype}{list(shapes[0])}, {other}{list(shapes[1])}", lambda device: op.op(a.to(device), b.to(device), **sample.kwargs),
                lambda device: op.op(*widened((a, b)), **sample.kwargs),
            )  # fmt: skip


# Calls along the last dimension of a matrix, for operators that the database does not call reductions.
ALONG_A_DIMENSION = (
    "cummax", "cummin", "cumsum", "cumprod", "logcumsumexp", "sort", "argsort", "median", "nanmedian", "softmax", "log_softmax", "logsumexp",
    "max.reduction_with_dim", "min.reduction_with_dim", "nn.functional.softmin", "diff",
)  # fmt: skip


def _special(dtype):
    if dtype.is_floating_point:
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, 100.0, -40.0, torch.inf, -torch.inf, torch.nan]
        return torch.tensor(values, dtype=torch.float64).to(dtype)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return torch.tensor([0, 1, 2, 7, high, high - 1, low, low + 1] + [-1, -2, -7] * (low < 0), dtype=dtype)


def special_values(op, dtype, record):
    """NaN, infinities, signed zeros, the limits of integers, negative operands. Integers are not divided by 0 or -1."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

    along = full_name(op) in ALONG_A_DIMENSION
    applies = isinstance(op, (BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo)) or along or op.name == "clamp"
    if not applies or dtype.is_complex or dtype == torch.bool:
        raise NotApplicable
    x, given = _special(dtype), samples_of(op, dtype, 1)[0].kwargs
    rows = torch.stack([x, x.flip(0), x.roll(3), *[value.expand(x.shape) for value in x]])
    calls = {}
    if isinstance(op, BinaryUfuncInfo):
        b = x if dtype.is_floating_point else x[(x != 0) & (x != -1)]
        calls["all pairs"] = lambda device: op.op(x[:, None].to(device), b[None].to(device), **place_all(given, device))
    elif isinstance(op, ReductionOpInfo) or along:
        calls["rows"] = lambda device: op.op(rows.to(device), dim=-1)
        calls["columns"] = lambda device: op.op(rows[:3].to(device), dim=0)
        if isinstance(op, ReductionOpInfo):
            calls["whole"] = lambda device: op.op(x.to(device))
    elif op.name == "clamp":
        for low, high in ((-1, 2), (3, 1), (None, 2), (1, None), (torch.nan, 1.0), (0.0, torch.nan)):
            if not dtype.is_floating_point and torch.nan in (low, high):
                continue
            calls[f"clamp({low}, {high})"] = lambda device, low=low, high=high: op.op(x.to(device), low, high)
            bounds = [None if v is None else torch.tensor(v).to(dtype).expand(x.shape) for v in (low, high)]
            calls[f"clamp tensors ({low}, {high})"] = lambda device, bounds=bounds: op.op(x.to(device), *[b if b is None else b.to(device) for b in bounds])
    else:
        calls["values"] = lambda device: op.op(x.to(device), **place_all(given, device))
        calls["strided values"] = lambda device: op.op(rows.to(device)[:, ::2], **place_all(given, device))
    for what, procedure in calls.items():
        if not is_random(lambda: procedure("cpu")):
            record.compare(what, procedure)


def errors(op, dtype, record):
    """Bad input raises the CPU's type of exception, with a message that the database's pattern matches when the CPU's does."""
    if dtype != torch.float32 or op.error_inputs_func is None:
        raise NotApplicable
    for error in itertools.islice(op.error_inputs("cpu"), LIMITS["errors"]):
        args = arguments(error.sample_input)

        def procedure(device, args=args):
            return call(op.op, place_all(args, device))

        expected = outcome(lambda: procedure("cpu"))
        if not isinstance(expected, Raised) or isinstance(expected.error, Unsupported):
            continue
        actual = on_device(procedure)
        record.compared += 1
        what = f"{describe(error.sample_input)}"
        try:
            compare(actual, expected, DEVICE)
            if re.search(error.error_regex, str(expected.error)) and not re.search(error.error_regex, str(actual.error)):
                raise Mismatch(f"message {actual}, the CPU's {expected}")
        except Mismatch as mismatch:
            record.failures.append(f"{what}: {mismatch}")


def _differentiate(op, args, device, process, cotangents, order=1):
    """Gradients (order 2: of a weighted sum of the gradients) with respect to the tensors that require them."""
    placed = place_all(args, device, requires_grad=True)
    leaves = [t for t in _tensors(placed) if t.requires_grad]
    if not leaves:
        raise Unsupported("nothing requires a gradient")
    result = call(op.op, placed)
    if process is not None:
        result = process(result)
    outputs = [t for t in _tensors(result) if t.requires_grad]
    if not outputs:
        raise Unsupported("no differentiable output")

    def weights(tensors, salt):
        made = []
        for i, t in enumerate(tensors):
            generator = torch.Generator().manual_seed(1000 * salt + i)
            complex_or_real = t.dtype if t.dtype.is_complex else torch.float64
            made.append(torch.randn(t.shape, generator=generator, dtype=complex_or_real).to(t.dtype).to(device))
        return made

    if device == DEVICE:
        torch.ocl.reset_fallbacks()
    first = torch.autograd.grad(outputs, leaves, weights(outputs, 1), allow_unused=True, create_graph=order > 1)
    if order == 1:
        return first
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        raise Unsupported("no second derivative")
    return torch.autograd.grad(again, leaves, weights(again, 2), allow_unused=True)


def gradient(op, dtype, record, order=1):
    if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu") or order == 2 and not op.supports_gradgrad:
        raise NotApplicable
    for sample in samples_of(op, dtype, LIMITS["gradient" if order == 1 else "second_gradient"], requires_grad=True):
        args = arguments(sample, op)

        def procedure(device, args=args, sample=sample):
            return _differentiate(op, args, device, sample.output_process_fn_grad, None, order)

        def precise(device, args=args, sample=sample):
            return _differentiate(op, widened(args), device, sample.output_process_fn_grad, None, order)

        record.compare(describe(sample), procedure, precise, random=lambda procedure=procedure: is_random(lambda: procedure("cpu")))


def second_gradient(op, dtype, record):
    if dtype != torch.float32:
        raise NotApplicable
    gradient(op, dtype, record, order=2)


CHECKS = {
    check.__name__: check
    for check in (values, layouts, strides, out, inplace, overlap, zero_size, cpu_scalars, promotion, special_values, errors, gradient, second_gradient)
}
