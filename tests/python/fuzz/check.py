"""Runs a program on both devices and compares results, exceptions and written storages.

Nothing may run on the CPU that has a kernel.
"""

import warnings

import torch
from torch.utils import _pytree

from ..conformance.compare import Raised, outcome

# Relative to the largest value: results of one rounding, and sums, whose order differs.
ROUNDING = {
    torch.float32: 3e-6,
    torch.float64: 1e-7,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.complex64: 3e-6,
    torch.complex128: 1e-7,
}
SUMS = {**ROUNDING, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.complex64: 2e-5}


# Operators of the programs without a kernel: logcumsumexp of complex numbers.
WITHOUT_KERNEL = ("aten::_logcumsumexp.out",)


class Different(AssertionError):
    pass


def _cpu_alone(error):
    """Whether other devices need not raise this error of the CPU: a dtype that it lacks, or an integer division by
    zero."""
    return (isinstance(error, NotImplementedError) and " not implemented for " in str(error)) or str(
        error
    ) == "ZeroDivisionError"


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
        raise Different(
            f"{int((~close).sum())} of {e.numel()} values differ, first at {where}: {a[where].item()}, the CPU's "
            f"{e[where].item()}"
        )


def check(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(lambda: program.outcome("cpu"))

        torch.ocl.reset_fallbacks()

        def run():
            result = program.outcome("ocl")
            torch.ocl.synchronize()
            return result

        actual = outcome(run)
    if isinstance(expected, Raised) and _cpu_alone(expected.error):
        return
    if isinstance(expected, Raised) or isinstance(actual, Raised):
        texts = [str(side) if isinstance(side, Raised) else "no exception" for side in (actual, expected)]
        if not (
            isinstance(expected, Raised) and isinstance(actual, Raised) and type(actual.error) is type(expected.error)
        ):
            raise Different("{}; the CPU: {}".format(*texts))
        return
    if fallbacks := [name for name in torch.ocl.fallbacks() if name not in WITHOUT_KERNEL]:
        raise Different(f"ran on the CPU: {fallbacks}")
    pairs = zip(_pytree.tree_leaves(actual), _pytree.tree_leaves(expected), strict=True)
    for a, e in pairs:
        if isinstance(e, torch.Tensor):
            _compare(a.detach().resolve_conj(), e.detach().resolve_conj(), program.reduces)
