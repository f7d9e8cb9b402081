"""Checks of values: plain, in other layouts, empty, of special numbers, and with operands of several types."""

import itertools

import torch
from torch.testing import make_tensor
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils import _pytree

from .cases import full_name
from .compare import Raised, compare_distributions, outcome, strides_differ
from .place import LAYOUTS, place_all, widened
from .recorder import DEVICE, NotApplicable, is_random, seed_of
from .samples import (
    LIMITS,
    UNINITIALIZED,
    UNINITIALIZED_IF_EMPTY,
    arguments,
    call,
    describe,
    has_channels,
    samples_of,
    without_ties,
)

# Refuse a CPU scalar on CUDA too.
NO_CPU_SCALARS = ("complex", "polar", "logical_and", "logical_or", "logical_xor")


# Orthogonal polynomials of NaN and degrees from 2, which the CPU returns from a variable that it never wrote.
UNWRITTEN_FOR_NAN = tuple(
    f"special.{name}"
    for name in ("chebyshev_polynomial_u", "chebyshev_polynomial_w", "laguerre_polynomial_l", "legendre_polynomial_p",
                 "shifted_chebyshev_polynomial_t",
                 "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_w")
)  # fmt: skip


def values(op, dtype, record, layouts=("plain",), limit="values"):
    for sample, layout in itertools.product(samples_of(op, dtype, LIMITS[limit]), layouts):
        args = arguments(sample, op)
        if layout == "channels_last" and not has_channels(args):
            continue

        def procedure(device, args=args, layout=layout):
            placed = place_all(args, device, layout)
            return without_ties(op, call(op.op, placed), placed)

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
            placed = place_all(widened(args), device)
            return without_ties(op, call(op.op, placed), placed)

        record.compare(f"{describe(sample)} {layout}", procedure, precise, random=same_distribution)


def layouts(op, dtype, record):
    values(op, dtype, record, LAYOUTS[1:], "layouts")


def strides(op, dtype, record):
    """Results are laid out as the CPU's."""
    for sample, layout in itertools.product(samples_of(op, dtype, LIMITS["layouts"]), ("plain", "channels_last")):
        args = arguments(sample, op)
        if layout == "channels_last" and not has_channels(args):
            continue

        def procedure(device, args=args, layout=layout):
            return call(op.op, place_all(args, device, layout))

        expected, actual = outcome(lambda: procedure("cpu")), outcome(lambda: procedure(DEVICE))
        if isinstance(expected, Raised) or isinstance(actual, Raised):
            continue
        record.compared += 1
        if text := strides_differ(actual, expected):
            record.failures.append(f"{describe(sample)} {layout}: {text}")


def zero_size(op, dtype, record):
    """The samples cut to nothing along the first and the last dimension of every tensor."""
    for sample in samples_of(op, dtype, LIMITS["zero_size"]):
        for where in (0, -1):
            args = arguments(sample, op)

            def procedure(device, args=args, where=where):
                return call(op.op, place_all(args, device, change=lambda t: t.narrow(where, 0, 0) if t.dim() else t))

            if op.name in UNINITIALIZED + UNINITIALIZED_IF_EMPTY:
                continue
            with torch.no_grad():
                if is_random(lambda: procedure("cpu")):
                    continue
                record.compare(f"{describe(sample)} empty dimension {where}", procedure)


def cpu_scalars(op, dtype, record):
    """A tensor of the device with a Python number and with a 0-dimensional CPU tensor, on either side."""
    if not isinstance(op, BinaryUfuncInfo) or op.name in NO_CPU_SCALARS:
        raise NotApplicable
    sample = samples_of(op, dtype, 1)[0]
    torch.manual_seed(seed_of(op.name))
    x = make_tensor((3, 5), dtype=dtype, device="cpu", **op.lhs_make_tensor_kwargs)
    y = make_tensor((3, 5), dtype=dtype, device="cpu", **{"exclude_zero": True, **op.rhs_make_tensor_kwargs})
    for scalar_dtype in (dtype, torch.float64, torch.int64, torch.bool):
        zero = y.flatten()[3].to(scalar_dtype)
        one = x.flatten()[3].to(scalar_dtype)
        pairs = {"tensor, CPU scalar": (x, zero), "CPU scalar, tensor": (one, y), "tensor, number": (x, zero.item())}
        for what, (a, b) in pairs.items():

            def procedure(device, a=a, b=b):
                return op.op(
                    *(t.to(device) if isinstance(t, torch.Tensor) and t.dim() else t for t in (a, b)), **sample.kwargs
                )

            def precise(device, a=a, b=b):
                return op.op(*widened((a, b)), **sample.kwargs)

            record.compare(f"{what} {scalar_dtype}", procedure, precise)


def promotion(op, dtype, record):
    """Two tensors of different dtypes, and of different categories with one of them 0-dimensional."""
    if not isinstance(op, BinaryUfuncInfo):
        raise NotApplicable
    sample = samples_of(op, dtype, 1)[0]
    torch.manual_seed(seed_of(op.name))
    for other in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float64, torch.float16):
        if other == dtype or (dtype.is_complex and other == torch.float16):  # complex32
            continue
        for shapes in (((3, 5), (3, 5)), ((3, 5), ()), ((), (3, 5))):
            a = make_tensor(shapes[0], dtype=dtype, device="cpu", low=1 if dtype.is_floating_point else None)
            b = make_tensor(shapes[1], dtype=other, device="cpu", low=1, high=5 if other != torch.bool else 2)
            record.compare(
                f"{dtype}{list(shapes[0])}, {other}{list(shapes[1])}",
                lambda device: op.op(a.to(device), b.to(device), **sample.kwargs),
                lambda device: op.op(*widened((a, b)), **sample.kwargs),
            )  # fmt: skip


# Calls along the last dimension of a matrix, for operators that the database does not call reductions.
ALONG_A_DIMENSION = (
    "cummax", "cummin", "cumsum", "cumprod", "logcumsumexp", "sort", "argsort", "median", "nanmedian", "softmax",
    "log_softmax", "logsumexp",
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
    along = full_name(op) in ALONG_A_DIMENSION
    applies = isinstance(op, (BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo)) or along or op.name == "clamp"
    if (
        not applies or dtype.is_complex or dtype == torch.bool or op.name == "lcm"
    ):  # which traps on the CPU for the least integers
        raise NotApplicable
    x, given = _special(dtype), samples_of(op, dtype, 1)[0].kwargs
    if op.name in UNWRITTEN_FOR_NAN:
        x = x[~x.isnan()]
    if "polynomial" in op.name and not dtype.is_floating_point:
        x = x[x.double().abs() < 1e6]  # a step of the recurrence per degree: minutes on both sides
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
            calls[f"clamp tensors ({low}, {high})"] = lambda device, bounds=bounds: op.op(
                x.to(device), *[b if b is None else b.to(device) for b in bounds]
            )
    else:
        calls["values"] = lambda device: op.op(x.to(device), **place_all(given, device))
        calls["strided values"] = lambda device: op.op(rows.to(device)[:, ::2], **place_all(given, device))
    for what, procedure in calls.items():
        if not is_random(lambda: procedure("cpu")):
            record.compare(what, procedure)
