"""Runs a program on both devices and compares results, exceptions and written storages."""

import warnings

import torch
from torch.utils import _pytree

from ..conformance.compare import Raised, outcome

# Relative to the largest value: results of one rounding, and sums, whose order differs.
ROUNDING = {torch.float32: 3e-6, torch.float64: 1e-7, torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.complex64: 3e-6}
SUMS = {**ROUNDING, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.complex64: 2e-5}


class Different(AssertionError):
    pass


def _compare(actual, expected, reduces):
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise Different(f"{actual.dtype} {tuple(actual.shape)}, the CPU's {expected.dtype} {tuple(expected.shape)}")
    if actual.device.type != "ocl":
        raise Different(f"result on {actual.device}")
    a, e = actual.cpu(), expected
    if e.dtype not in ROUNDING:
        if not torch.equal(a, e):
            raise Different(f"{int((a != e).sum())} of {e.numel()} values differ")
        return
    wide = torch.complex128 if e.dtype.is_complex else torch.float64
    a, e, tolerance = a.to(wide), e.to(wide), (SUMS if reduces else ROUNDING)[e.dtype]
    finite = e[torch.isfinite(e)].abs()
    scale = max(1e-3, finite.max().item()) if finite.numel() and reduces else 0.0
    close = torch.isclose(a, e, rtol=tolerance, atol=max(1e-6, tolerance * scale), equal_nan=True)
    if not close.all():
        where = tuple((~close).nonzero()[0].tolist())
        raise Different(f"{int((~close).sum())} of {e.numel()} values differ, first at {where}: {a[where].item()}, the CPU's {e[where].item()}")


def check(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(lambda: program.outcome("cpu"))

        def run():
            result = program.outcome("ocl")
            torch.ocl.synchronize()
            return result

        actual = outcome(run)
    if isinstance(expected, Raised) or isinstance(actual, Raised):
        if not isinstance(expected, Raised) or not isinstance(actual, Raised):
            raise Different(f"{actual if isinstance(actual, Raised) else 'no exception'}; the CPU: {expected if isinstance(expected, Raised) else 'no exception'}")
        if not isinstance(actual.error, type(expected.error)) and type(actual.error) not in (RuntimeError, NotImplementedError):
            raise Different(f"{actual}, the CPU's {expected}")
        return
    pairs = zip(_pytree.tree_leaves(actual), _pytree.tree_leaves(expected), strict=True)
    for a, e in pairs:
        if isinstance(e, torch.Tensor):
            _compare(a.detach().resolve_conj(), e.detach().resolve_conj(), program.reduces)
