"""make_graphed_callables: functions and modules whose forward and backward passes are graphs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from . import streams
from .device import synchronize
from .graphs import OclGraph, graph, graph_pool_handle
from .memory import PoolId

_Function = Callable[..., Any]


def _check_module(module: nn.Module) -> None:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    if any(len(kind) > 0 for kind in hooks):
        raise RuntimeError("Modules must not have hooks registered at the time they are passed.")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("In any module passed to make_graphed_callables(), only parameters may be trainable.")


class _Capture:
    """One callable with the memory that its graphs read and write."""

    def __init__(self, function: _Function, args: tuple[Any, ...], allow_unused: bool) -> None:
        self.function, self.args, self.allow_unused = function, args, allow_unused
        self.inputs, self.input_spec = pytree.tree_flatten(args)
        if not all(isinstance(value, Tensor) for value in self.inputs):
            raise TypeError("In the sample arguments of make_graphed_callables only tensors are allowed")
        module = function if isinstance(function, nn.Module) else None
        if module is not None:
            _check_module(module)
        self.parameters = tuple(module.parameters()) if module is not None else ()
        # What gets gradients, in the order of the autograd function's arguments.
        self.surface: tuple[Tensor, ...] = (*self.inputs, *self.parameters)
        self.wanted = [i for i, tensor in enumerate(self.surface) if tensor.requires_grad]
        self.forward, self.backward = OclGraph(), OclGraph()
        self.outputs: list[Tensor] = []
        self.output_spec: Any = None
        self.grad_outputs: list[Tensor | None] = []
        self.grads: list[Tensor | None] = []

    def call(self) -> tuple[list[Tensor], Any]:
        outputs, spec = pytree.tree_flatten(self.function(*self.args))
        if not all(isinstance(value, Tensor) for value in outputs):
            raise TypeError("a callable of make_graphed_callables must return tensors, or containers of tensors")
        return outputs, spec

    def differentiate(self, outputs: list[Tensor], grad_outputs: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of surface: None where none is wanted."""
        grads: list[Tensor | None] = [None] * len(self.surface)
        roots = [(out, grad) for out, grad in zip(outputs, grad_outputs, strict=True) if out.requires_grad]
        if self.wanted and roots:
            found = torch.autograd.grad(
                tuple(out for out, _ in roots),
                tuple(self.surface[i] for i in self.wanted),
                tuple(grad for _, grad in roots),
                allow_unused=self.allow_unused,
            )
            for i, grad in zip(self.wanted, found, strict=True):
                grads[i] = grad
        return grads

    def warm_up(self, times: int) -> None:
        for _ in range(times):
            outputs, _ = self.call()
            self.differentiate(outputs, [torch.zeros_like(out) for out in outputs])

    def capture_forward(self, pool: PoolId) -> None:
        with graph(self.forward, pool):
            self.outputs, self.output_spec = self.call()

    def capture_backward(self, pool: PoolId) -> None:
        self.grad_outputs = [torch.empty_like(out) if out.requires_grad else None for out in self.outputs]
        with graph(self.backward, pool):
            self.grads = self.differentiate(self.outputs, self.grad_outputs)
        self.outputs = [out.detach() for out in self.outputs]

    def function_of_graphs(self) -> Callable[..., Any]:
        apply = _autograd_function(self)

        def graphed(*args: Any) -> Any:
            flat, spec = pytree.tree_flatten(args)
            if spec != self.input_spec:
                raise TypeError("a graphed callable takes arguments of the structure of its sample arguments")
            outputs = apply(*flat, *self.parameters)
            return pytree.tree_unflatten(list(outputs), self.output_spec)

        return graphed


def _autograd_function(capture: _Capture) -> Callable[..., Any]:
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
            for static, given in zip(capture.inputs, inputs, strict=False):
                if static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            capture.forward.replay()
            outputs = tuple(out.detach() for out in capture.outputs)
            ctx.mark_non_differentiable(
                *(out for out, grad in zip(outputs, capture.grad_outputs, strict=True) if grad is None)
            )
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            for static, given in zip(capture.grad_outputs, grads, strict=True):
                if static is not None and static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            capture.backward.replay()
            return tuple(grad.detach() if grad is not None else None for grad in capture.grads)

    return Graphed.apply


def _as_module(module: nn.Module, graphed: _Function) -> nn.Module:
    """The module with a forward() that replays while it is in the mode (training or not) of the capture."""
    training, eager = module.training, module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return graphed(*args) if module.training == training and not kwargs else eager(*args, **kwargs)

    setattr(module, "forward", forward)  # noqa: B010  a method is replaced by a function
    return module


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: PoolId | None = None,
) -> Any:
    """`callables` (a function or module, or a tuple of them in the order of use) with passes that are graphs.

    `sample_args`: for each a tuple of tensors, whose shapes, types and requires_grad calls must have. Outputs and
    gradients of a call are overwritten by the next call of the same callable. Modules are changed and returned. Raises
    RuntimeError under autocast with its cache, for modules with hooks, and for what cannot be captured.
    """
    if torch.is_autocast_enabled("ocl") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Set `cache_enabled=False`.")
    single = not isinstance(callables, tuple)
    functions: tuple[_Function, ...] = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables have {len(samples)} tuples of sample arguments")
    pool = graph_pool_handle() if pool is None else pool
    captures = [_Capture(f, tuple(args), allow_unused_input) for f, args in zip(functions, samples, strict=True)]
    synchronize()
    with streams.stream(streams.Stream()):
        for capture in captures:
            capture.warm_up(num_warmup_iters)
    synchronize()
    for capture in captures:
        capture.capture_forward(pool)
    for capture in reversed(captures):
        capture.capture_backward(pool)
    results = [
        _as_module(f, capture.function_of_graphs()) if isinstance(f, nn.Module) else capture.function_of_graphs()
        for f, capture in zip(functions, captures, strict=True)
    ]
    return results[0] if single else tuple(results)
