"""A function compiled on the device against the same function on the CPU without a compiler."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import metrics
from torch.utils import _pytree

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-12}


def on(device: str, values: Any) -> Any:
    return _pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), values)


def same(actual: Any, expected: Any) -> None:
    """Every tensor is on ocl, has the expected type and shape, and is near the expected numbers."""
    here, there = _pytree.tree_leaves(actual), _pytree.tree_leaves(expected)
    for a, e in zip(here, there, strict=True):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        assert a.device.type == "ocl"
        bound = TOLERANCE.get(e.dtype, 0)
        torch.testing.assert_close(a.cpu(), e, rtol=bound, atol=bound, equal_nan=True)


def check(function: Callable[..., Any], arguments: Sequence[Any], kernels: int | None = None, **options: Any) -> Any:
    """Compiles and compares; `kernels`: how many must have been written."""
    metrics.reset()
    compiled = torch.compile(function, **options)
    actual = compiled(*on("ocl", arguments))
    assert torch.ocl.fallbacks() == {}
    same(actual, function(*arguments))
    if kernels is not None:
        assert metrics.generated_kernel_count == kernels
    return compiled
