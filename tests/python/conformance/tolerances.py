"""How far a result may be from the exact one. Comparisons with a float64 reference go through here.

A result is the sum of `terms` products, rounded to its type at the end:

    |actual - exact| <= roundings * eps(dtype) * |exact|
                        + (2 * eps(compute) * sqrt(terms) * condition + 2 * steps * eps(dtype)) * rms(exact)

First: what storing costs, element by element; half an eps for each time that a value is rounded to `dtype`. A function
of a rounded number magnifies its relative error: the gradient of logsumexp is exp(x - r), as wrong as |r| roundings.
Second: the sum in the type that the device computes in (float32 for the 16-bit ones); n roundings of either sign add
up like sqrt(n) of them. `rms(exact)` already has the size of a sum of terms that are not all of one sign. `condition`
is how much the function magnifies errors of its operands, the condition number of a matrix for example.
Third: `steps` intermediate results of the size of the result that are stored in `dtype` on the way.

Nothing is relative to the largest value. Zeros, a result 2 % too large and one wrong element fail for every type, see
test_tolerances.py. `own` is what the CPU computed in the same type: twice its largest error is allowed on top, up to a
cap, where a function's condition is not known. Only NaN is close to NaN.
"""

import torch

COMPUTE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
OWN_ERROR = 2  # the device may round in another order than the CPU
CAP = 2.0**10  # in eps(compute) * rms(exact): the CPU itself is wrong where it is more


def rms(values):
    """Root of the mean square of what is finite; 0 for nothing."""
    values = values[torch.isfinite(values)]
    return values.abs().double().square().mean().sqrt().item() if values.numel() else 0.0


def real(tensor):
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def allowed(exact, dtype, terms=1, roundings=1, steps=0, condition=1.0, own=None):
    """The largest error of each element of a result of `dtype`, as a float64 tensor like `exact`."""
    stored, computed = torch.finfo(dtype), torch.finfo(COMPUTE.get(dtype, dtype))
    scale = rms(exact)
    bound = roundings * stored.eps * exact.double().abs().nan_to_num(posinf=0)
    bound = bound + (2 * computed.eps * max(terms, 1) ** 0.5 * condition + 2 * steps * stored.eps) * scale
    bound = bound + stored.smallest_normal * stored.eps
    if own is not None:
        error = (own.double() - exact.double())[torch.isfinite(exact) & torch.isfinite(own)].abs()
        if error.numel():
            bound = bound + OWN_ERROR * min(error.max().item(), CAP * computed.eps * scale)
    return bound


def assert_close(actual, exact, dtype=None, *, terms=None, **options):
    """`actual` of `dtype` (its own) agrees with `exact`; infinities and NaN are in the same places.

    terms: how many products the longest sum has, the number of elements where it is not known. Integers must be equal.
    options: those of allowed().
    """
    assert actual.shape == exact.shape, f"shape {tuple(actual.shape)} instead of {tuple(exact.shape)}"
    dtype = actual.dtype if dtype is None else dtype
    a, e = real(actual.detach().cpu()), real(exact.detach().cpu())
    if not e.is_floating_point():
        assert torch.equal(a, e)
        return
    if options.get("own") is not None:
        options["own"] = real(options["own"].detach().cpu())
    a, e = a.double(), e.double()
    bound = allowed(e, dtype, terms or e.numel(), **options)
    wrong = torch.where(torch.isfinite(e), ~((a - e).abs() <= bound), a != e) & ~(a.isnan() & e.isnan())
    if not wrong.any():
        return
    excess = torch.where(wrong, (a - e).abs() / bound, 0).nan_to_num(nan=torch.inf)
    at = tuple(i.item() for i in torch.unravel_index(excess.argmax(), excess.shape))
    raise AssertionError(
        f"{int(wrong.sum())} of {e.numel()} values; at {at}: {a[at].item()!r} instead of {e[at].item()!r}, "
        f"{excess[at].item():.3g} times the error {bound[at].item():.3g} that {dtype} allows"
    )
