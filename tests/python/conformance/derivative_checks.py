"""Checks of first and second derivatives."""

import torch

from .place import Unsupported, place_all, widened
from .recorder import DEVICE, NotApplicable, is_random
from .samples import LIMITS, arguments, call, describe, samples_of, tensors


def _differentiate(op, args, device, process, cotangents, order=1):
    """Gradients (order 2: of a weighted sum of the gradients) with respect to the tensors that require them."""
    placed = place_all(args, device, requires_grad=True)
    leaves = [t for t in tensors(placed) if t.requires_grad]
    if not leaves:
        raise Unsupported("nothing requires a gradient")
    result = call(op.op, placed)
    if process is not None:
        result = process(result)
    outputs = [t for t in tensors(result) if t.requires_grad]
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
    if (
        not op.supports_autograd
        or dtype not in op.supported_backward_dtypes("cpu")
        or (order == 2 and not op.supports_gradgrad)
    ):
        raise NotApplicable
    for sample in samples_of(op, dtype, LIMITS["gradient" if order == 1 else "second_gradient"], requires_grad=True):
        args = arguments(sample, op)

        def procedure(device, args=args, sample=sample):
            return _differentiate(op, args, device, sample.output_process_fn_grad, None, order)

        def precise(device, args=args, sample=sample):
            return _differentiate(op, widened(args), device, sample.output_process_fn_grad, None, order)

        record.compare(
            describe(sample), procedure, precise, random=lambda procedure=procedure: is_random(lambda: procedure("cpu"))
        )


def second_gradient(op, dtype, record):
    if dtype != torch.float32:
        raise NotApplicable
    gradient(op, dtype, record, order=2)
