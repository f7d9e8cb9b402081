"""The checks of modules and optimizers: whole steps on the CPU and on `ocl`."""

import copy
import itertools

import torch
from torch.utils import _pytree

from .compare import Raised, outcome
from .place import Unsupported, place_all, widened
from .recorder import DEVICE, NotApplicable, is_random, seed_of


def _weighted(outputs, device):
    total = 0
    for i, t in enumerate(
        leaf for leaf in _pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ):
        weight = (
            torch.randn(t.shape, generator=torch.Generator().manual_seed(i), dtype=torch.float32).to(t.dtype).to(device)
        )
        total = total + (t * weight).sum()
    return total


def _run(info, module_input, dtype, training, device):
    arguments = module_input.constructor_input
    torch.manual_seed(seed_of(info.name))
    module = info.module_cls(*arguments.args, **arguments.kwargs).to(dtype).train(training)
    if info.is_lazy:
        raise Unsupported("lazy module")
    if device != "cpu":
        module = copy.deepcopy(module).to(device)
    forward = module_input.forward_input
    inputs = (None, tuple(forward.args), dict(forward.kwargs))
    _, args, kwargs = place_all(widened(inputs) if dtype == torch.float64 else inputs, device, requires_grad=True)
    result = module(*args, **kwargs)
    total = _weighted(result, device)
    gradients = {}
    if isinstance(total, torch.Tensor):
        total.backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        gradients["inputs"] = [
            t.grad for t in _pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.is_leaf
        ]
    return result, gradients, dict(module.named_buffers())


def module_step(info, dtype, record):
    """Forward, backward, gradients of all parameters and inputs, buffers afterwards; in training and in evaluation."""
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(seed_of(info.name))
        for module_input in info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        ):
            if module_input.forward_input is None:
                continue

            def procedure(device, module_input=module_input, training=training):
                return _run(info, module_input, dtype, training, device)

            expected = outcome(lambda: procedure("cpu"))
            if isinstance(expected, Raised):
                continue
            arguments = module_input.constructor_input
            what = f"{arguments.args} {arguments.kwargs} training={training}"[:200]

            def precise(device, module_input=module_input, training=training):
                return _run(info, module_input, torch.float64, training, device)

            record.compare(
                what, procedure, precise, random=lambda procedure=procedure: is_random(lambda: procedure("cpu"))
            )


def optimizer_steps(info, dtype, record):
    """Four steps with every variant of arguments and every implementation (loop, foreach, fused): parameters and
    state."""
    implementations = [{}] + [{name: True} for name in info.supported_impls if name in ("foreach", "fused")]
    for options, implementation in itertools.product(info.optim_inputs_func("cpu"), implementations):
        kwargs = {**options.kwargs, **implementation}
        if any(isinstance(v, torch.Tensor) for v in kwargs.values()) or kwargs.get("differentiable"):
            continue

        def procedure(device, kwargs=kwargs, wide=dtype):
            torch.manual_seed(7)
            values = [torch.randn(shape) for shape in ((3, 5), (7,), (), (2, 3, 4))]
            parameters = [torch.nn.Parameter(v.to(dtype).to(wide).to(device)) for v in values]
            if info.optim_cls.__name__ == "Muon":
                parameters = parameters[:1]
            optimizer = info.optim_cls(parameters, **kwargs)
            gradients = [[torch.randn(p.shape).to(dtype).to(wide) for p in parameters] for _ in range(4)]
            for step in range(4):

                def closure(step=step):
                    optimizer.zero_grad()
                    loss = sum((p * g.to(device)).sum() + (p * p).sum() for p, g in zip(parameters, gradients[step]))
                    loss.backward()
                    return loss

                if info.step_requires_closure:
                    optimizer.step(closure)
                else:
                    closure()
                    optimizer.step()
            state = optimizer.state_dict()["state"]
            tensors = [
                {k: v.to(device) for k, v in sorted(s.items()) if isinstance(v, torch.Tensor)}
                for s in state.values()
                if isinstance(s, dict)
            ]
            # LBFGS keeps differences of nearly equal gradients: rounding.
            return [p.detach() for p in parameters], [] if info.step_requires_closure else tensors

        def precise(device, procedure=procedure):
            return procedure(device, wide=torch.float64)

        record.compare(f"{kwargs}", procedure, precise)


__all__ = ["DEVICE", "NotApplicable", "module_step", "optimizer_steps"]
