"""Comparing what `ocl` computed with what the CPU computed."""

import math

import torch
from torch.utils import _pytree

from .tolerances import allowed, real, rms

# rtol, atol: those of torch.testing.assert_close; float32 leaves room for another order of summation.
TOLERANCE = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (2e-6, 2e-5),
    torch.float64: (1e-7, 1e-7), torch.complex32: (1e-3, 1e-5), torch.complex64: (2e-6, 2e-5),
    torch.complex128: (1e-7, 1e-7),
}  # fmt: skip
LARGEST_OWN_ERROR = 0.1  # of the rms of a result: a CPU that is further from float64 is no yardstick
# The rms of a result whose terms cancel: zero but for float64's own rounding. What remains in a narrower type is noise.
CANCELLED = 2.0**-48


class Mismatch(Exception):
    pass


class Raised:
    """An outcome: the exception that a procedure ended with."""

    def __init__(self, error):
        self.error = error

    def __str__(self):
        return f"{type(self.error).__name__}: {str(self.error).splitlines()[0][:200] if str(self.error) else ''}"


def outcome(procedure):
    try:
        return procedure()
    except Exception as error:  # the exception is the result
        return Raised(error)


def _tolerance(expected):
    """rtol and atol; results that are small as a whole have a smaller absolute one, or zeros would be close to them."""
    rtol, atol = TOLERANCE.get(expected.dtype, (0, 0))
    return rtol, atol * min(1.0, rms(expected.to(torch.complex64) if expected.dtype == torch.complex32 else expected))


def _values_close(actual, expected):
    if not (expected.is_floating_point() or expected.is_complex()):
        return torch.equal(actual, expected)
    rtol, atol = _tolerance(expected)
    if expected.dtype == torch.complex32:  # the CPU does not compare it
        actual, expected = actual.to(torch.complex64), expected.to(torch.complex64)
    return bool(torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True).all())


def _within(actual, expected, reference):
    """Whether each element's error is what storing and adding cost (tolerances.py), and 4 times the CPU's worst beyond
    storing. Of terms that cancel the CPU's noise is the only yardstick."""
    epsilon = torch.finfo(expected.dtype).eps
    actual, cpu, reference = (real(t.to(reference.dtype)).double() for t in (actual, expected, reference))
    finite = torch.isfinite(reference)
    if (
        not torch.equal(finite, torch.isfinite(actual))
        or not torch.isclose(actual[~finite], reference[~finite], equal_nan=True).all()
    ):
        return False
    if not finite.any():
        return True
    actual, cpu, reference = (t[finite] for t in (actual, cpu, reference))
    beyond = ((cpu - reference).abs() - epsilon / 2 * reference.abs()).max().item()
    most = math.inf if rms(reference) <= CANCELLED else LARGEST_OWN_ERROR * rms(reference)
    beyond = min(4 * max(beyond, 0.0), most) if math.isfinite(beyond) else 0.0
    bound = allowed(reference, expected.dtype, terms=reference.numel()) + beyond
    return bool(((actual - reference).abs() <= bound).all())


def as_precise(actual, expected, precise):
    """The device's error against a float64 computation is of the size of the CPU's own error."""
    if not (
        isinstance(precise, torch.Tensor)
        and precise.shape == expected.shape
        and (precise.is_floating_point() or precise.is_complex())
    ):
        return False
    wide = torch.complex128 if precise.is_complex() else torch.float64
    reference = precise.detach().cpu().to(wide)
    # Half types overflow where float64 does not, and what is computed of two infinities is NaN.
    overflow = ~torch.isfinite(expected.to(wide)) & torch.isfinite(reference)
    if overflow.any():
        if not torch.equal(expected[overflow].nan_to_num(0.5), actual[overflow].nan_to_num(0.5)):
            return False
        if not torch.equal(expected[overflow].isnan(), actual[overflow].isnan()):
            return False
        actual, expected, reference = (
            torch.where(overflow, torch.zeros((), dtype=t.dtype), t) for t in (actual, expected, reference)
        )
    return _within(actual, expected, reference)


def same_strides(actual, expected):
    return (
        all(a == e for a, e, size in zip(actual.stride(), expected.stride(), expected.shape) if size > 1)
        or expected.numel() == 0
    )


def compare_tensor(actual, expected, device, precise=None):
    if not isinstance(actual, torch.Tensor):
        raise Mismatch(f"{type(actual).__name__} instead of a tensor")
    if actual.device.type != device:
        raise Mismatch(f"result on {actual.device}")
    if actual.dtype != expected.dtype:
        raise Mismatch(f"dtype {actual.dtype}, the CPU's {expected.dtype}")
    if actual.shape != expected.shape:
        raise Mismatch(f"shape {tuple(actual.shape)}, the CPU's {tuple(expected.shape)}")
    if actual.layout != expected.layout:
        raise Mismatch(f"layout {actual.layout}, the CPU's {expected.layout}")
    if expected.layout is not torch.strided or expected.is_quantized:
        return
    a, e = actual.detach().cpu().resolve_conj().resolve_neg(), expected.detach().resolve_conj().resolve_neg()
    if _values_close(a, e):
        return
    if precise is not None and (e.is_floating_point() or e.is_complex()) and as_precise(a, e, precise):
        return
    rtol, atol = _tolerance(e)
    difference = ~torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    where = difference.nonzero()[:1].tolist()
    at = tuple(where[0]) if where else ()
    pair = f"{a[at].item()!r}, the CPU's {e[at].item()!r}"
    raise Mismatch(f"{int(difference.sum())} of {e.numel()} values, first at {at}: {pair} ({e.dtype} {tuple(e.shape)})")


def compare(actual, expected, device="ocl", precise=None):
    """Raises Mismatch unless two outcomes agree: exceptions of one type, or equal trees of tensors (tolerances above)
    and other values.

    precise: a function giving the outcome of a float64 computation, asked only when the tolerances are exceeded.
    """
    if isinstance(expected, Raised):
        text = str(expected.error)
        if "MKL FFT error" in text and not isinstance(actual, Raised):
            if any(t.numel() for t in _pytree.tree_leaves(actual) if isinstance(t, torch.Tensor)):
                raise Mismatch("a result that is not empty where the CPU's library refuses an empty batch")
            return
        if text == "ZeroDivisionError" or (
            isinstance(expected.error, NotImplementedError) and " not implemented for " in text
        ):
            # integer division by zero is an error on the CPU alone; a dtype that the CPU lacks is no rule for others
            return
        if not isinstance(actual, Raised):
            raise Mismatch(f"no exception, the CPU raises {expected}")
        if type(actual.error) is not type(expected.error):
            raise Mismatch(f"raises {actual}, the CPU {expected}")
        return
    if isinstance(actual, Raised):
        raise Mismatch(f"raises {actual}, the CPU does not")
    a_leaves, a_spec = _pytree.tree_flatten(actual)
    e_leaves, e_spec = _pytree.tree_flatten(expected)
    if len(a_leaves) != len(e_leaves):
        raise Mismatch(f"structure {a_spec}, the CPU's {e_spec}")
    precise_leaves = None
    for i, (a, e) in enumerate(zip(a_leaves, e_leaves)):
        if not isinstance(e, torch.Tensor):
            same = a == e or (isinstance(e, float) and (math.isclose(a, e, rel_tol=1e-5) or (a != a and e != e)))
            if (
                not same
                and not (isinstance(e, complex) and abs(a - e) <= 1e-5 * max(1, abs(e)))
                and not isinstance(e, torch.device)
            ):
                raise Mismatch(f"{a!r}, the CPU's {e!r}")
            continue
        try:
            compare_tensor(a, e, device)
        except Mismatch:
            if precise is None:
                raise
            if precise_leaves is None:
                reference = outcome(precise)
                precise_leaves = [] if isinstance(reference, Raised) else _pytree.tree_flatten(reference)[0]
            compare_tensor(a, e, device, precise_leaves[i] if i < len(precise_leaves) else None)


def strides_differ(actual, expected):
    """Text about the first tensor whose strides are not the CPU's, or None."""
    for a, e in zip(_pytree.tree_leaves(actual), _pytree.tree_leaves(expected)):
        if (
            not isinstance(e, torch.Tensor)
            or not isinstance(a, torch.Tensor)
            or e.layout is not torch.strided
            or a.shape != e.shape
        ):
            continue
        if not same_strides(a, e):
            return f"strides {a.stride()}, the CPU's {e.stride()} (shape {tuple(e.shape)})"
    return None


def compare_distributions(actual_runs, expected_runs):
    """Two-sample Kolmogorov-Smirnov test of all values of repeated runs; false alarms less than once in a million."""
    for actual, expected in zip(zip(*actual_runs), zip(*expected_runs)):
        a = torch.cat([t.detach().cpu().to(torch.complex128).real.flatten() for t in actual]).nan_to_num()
        e = torch.cat([t.detach().to(torch.complex128).real.flatten() for t in expected]).nan_to_num()
        if not e.numel():
            continue
        points = torch.cat([a, e]).unique()
        cdf = [torch.searchsorted(t.sort().values, points, right=True) / t.numel() for t in (a, e)]
        distance = (cdf[0] - cdf[1]).abs().max().item()
        limit = 2.7 * math.sqrt(2 / e.numel())
        if distance > limit:
            raise Mismatch(
                f"distribution: Kolmogorov-Smirnov distance {distance:.3f} over {limit:.3f}, means {a.mean():.4g} and "
                f"{e.mean():.4g}"
            )
