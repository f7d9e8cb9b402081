"""A differentiable function on the device and in float64 on the CPU: values, gradients, and that nothing fell back."""

import torch

from conformance.tolerances import COMPUTE, assert_close
from conftest import without_fallback


def leaves(tensors, move):
    return [move(t).requires_grad_(t.is_floating_point()) if isinstance(t, torch.Tensor) else t for t in tensors]


def close(actual, expected, dtype, **options):
    assert_close(actual, expected, dtype, **options)


def outputs(results):
    return results if isinstance(results, tuple) else (results,)


def gradients_of(results, inputs, cotangent):
    wanted = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
    return torch.autograd.grad(results[0], wanted, cotangent.to(results[0]), allow_unused=True)


def check(
    function,
    *tensors,
    device="ocl",
    dtype=None,
    gradients=True,
    strides=True,
    exact=torch.float64,
    gradient=None,
    **options,
):
    """function(*tensors) and its gradients with respect to the floating tensors agree with float64 on the CPU.

    exact: another type where float64 takes another branch, rounding a coordinate to another pixel for example.
    options: those of tolerances.py; no sum has more terms than the largest tensor has elements.
    gradient: further options, for gradients.
    """
    if dtype is not None:
        tensors = [t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in tensors]
    dtype = next(t.dtype for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point())
    compute = COMPUTE.get(dtype, dtype)
    options.setdefault("terms", max(t.numel() for t in tensors if isinstance(t, torch.Tensor)))

    def copy(t, to):
        return t.detach().clone().to(to) if t.is_floating_point() else t.clone()

    truth_leaves, own_leaves = (leaves(tensors, lambda t, to=to: copy(t, to)) for to in (exact, compute))
    truth, own = outputs(function(*truth_leaves)), outputs(function(*own_leaves))
    with without_fallback():
        on_device = leaves(tensors, lambda t: t.detach().to(device))
        actual = outputs(function(*on_device))
    for a, e, o in zip(actual, truth, own, strict=True):
        assert a.device.type == device
        close(a, e if e.is_floating_point() else o, dtype, own=o, **options)
        if strides and o.dim() >= 3:
            assert a.is_contiguous() == o.is_contiguous() or a.stride() == o.stride()
    if not gradients:
        return
    cotangent = torch.randn(truth[0].shape, dtype=torch.float64).to(dtype)
    truth, own = gradients_of(truth, truth_leaves, cotangent), gradients_of(own, own_leaves, cotangent)
    with without_fallback():
        actual = gradients_of(actual, on_device, cotangent.to(device))
    for a, e, o in zip(actual, truth, own, strict=True):
        assert (a is None) == (e is None)
        if e is not None:
            close(a, e, dtype, own=o, **(options | (gradient or {})))
