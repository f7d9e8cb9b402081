"""Comparison of a differentiable function on the device with the CPU: values, gradients, and that nothing fell back."""

import torch

from conftest import without_fallback

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.float16: 5e-3, torch.bfloat16: 4e-2}
HALF = (torch.float16, torch.bfloat16)


def leaves(tensors, move):
    return [move(t).requires_grad_(t.is_floating_point()) if isinstance(t, torch.Tensor) else t for t in tensors]


def close(actual, expected, dtype, factor=1.0):
    """Largest error relative to the largest expected value; NaN only where expected."""
    assert actual.shape == expected.shape
    if not expected.is_floating_point():
        assert torch.equal(actual.cpu(), expected)
        return
    finite = expected[torch.isfinite(expected)]
    scale = finite.abs().max().item() if finite.numel() else 1.0
    torch.testing.assert_close(
        actual.cpu().to(expected.dtype),
        expected,
        rtol=0,
        atol=factor * TOLERANCE[dtype] * max(scale, 1e-3),
        equal_nan=True,
    )


def check(function, *tensors, device="ocl", dtype=None, gradients=True, factor=1.0, strides=True):
    """function(*tensors) and its gradients with respect to the floating tensors agree with the CPU (half types: with
    float32)."""
    if dtype is not None:
        tensors = [t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in tensors]
    dtype = next(t.dtype for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point())
    wide = lambda t: t.float() if t.dtype in HALF else t.clone()
    on_cpu = leaves(tensors, lambda t: wide(t.detach()).clone())
    expected = function(*on_cpu)
    with without_fallback():
        on_device = leaves(tensors, lambda t: t.detach().to(device))
        actual = function(*on_device)
    expected = expected if isinstance(expected, tuple) else (expected,)
    actual = actual if isinstance(actual, tuple) else (actual,)
    for a, e in zip(actual, expected):
        assert a.device.type == device
        close(a.detach(), e.detach(), dtype, factor)
        if strides and e.dim() >= 3:
            assert a.is_contiguous() == e.is_contiguous() or a.stride() == e.stride()
    if not gradients:
        return
    cotangent = torch.randn(expected[0].shape, dtype=torch.float64).to(dtype)
    wanted = [i for i, t in enumerate(on_cpu) if isinstance(t, torch.Tensor) and t.requires_grad]
    e = torch.autograd.grad(
        expected[0], [on_cpu[i] for i in wanted], cotangent.to(expected[0].dtype), allow_unused=True
    )
    moved = cotangent.to(device)
    with without_fallback():
        a = torch.autograd.grad(actual[0], [on_device[i] for i in wanted], moved, allow_unused=True)
    for x, y in zip(a, e):
        assert (x is None) == (y is None)
        if y is not None:
            close(x, y, dtype, 4 * factor)
