"""Checks of the other ways to call an operator: out=, in place, on memory that overlaps, with bad input."""

import itertools
import re

import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

from .compare import Mismatch, Raised, compare, outcome
from .place import GARBAGE, Unsupported, place_all, widened
from .recorder import DEVICE, NotApplicable, is_random, on_device
from .samples import LIMITS, TIES, UNINITIALIZED, arguments, call, describe, samples_of, tensors, without_ties


def out(op, dtype, record):
    """out= of the right shape, strided, empty, and of another dtype."""
    if not op.supports_out or op.name in UNINITIALIZED:
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
                    pairs = zip(tensors(result), tensors(expected))
                    if op.name in TIES:
                        return [(r.dtype, r.shape) for r, _ in pairs]
                    return [(r.dtype, r.to(e.dtype)) for r, e in pairs]
                same = all(r is t for r, t in zip(tensors(result), tensors(target)))
                kept = [t for t in tensors(target) if t.numel() and kind != "empty"]
                strides = [[stride for stride, size in zip(t.stride(), t.shape) if size > 1] for t in kept]
                return (
                    without_ties(op, result, placed),
                    same,
                    strides,
                    [bool((base[..., 1] == base.new_full((), 77)).all()) for base in bases],
                )

            def precise(device, args=args, kind=kind):
                result = call(op.op, place_all(widened(args), device))
                return [(t.dtype, t) for t in tensors(result)] if kind == "dtype" else result

            record.compare(f"{describe(sample)} out={kind}", procedure, precise)


def inplace(op, dtype, record):
    """The in-place variant, also on a strided tensor (nothing between its elements may change) and on an expanded one
    (refused)."""
    variant = op.inplace_variant
    if variant is None:
        raise NotApplicable
    for sample, kind in itertools.product(samples_of(op, dtype, LIMITS["inplace"]), ("plain", "strided", "expanded")):
        if (
            sample.broadcasts_input
            or not isinstance(sample.input, torch.Tensor)
            or (sample.input.dim() == 0 and kind != "plain")
        ):
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


def errors(op, dtype, record):
    """Bad input raises the CPU's type of exception, with a message that the database's pattern matches when the CPU's
    does."""
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
            if re.search(error.error_regex, str(expected.error)) and not re.search(
                error.error_regex, str(actual.error)
            ):
                raise Mismatch(f"message {actual}, the CPU's {expected}")
        except Mismatch as mismatch:
            record.failures.append(f"{what}: {mismatch}")
