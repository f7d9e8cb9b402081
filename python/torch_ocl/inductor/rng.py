"""Random operators that activation checkpointing computes twice, in compiled graphs.

AOTAutograd keeps the generator's state of the forward pass and runs the operator of the backward pass with it, by two
higher-order operators that know a list of devices.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey

from .. import ocl


def _device(arguments: Any, options: dict[str, Any]) -> torch.device:
    """Where an operator computes: rng_prims.get_device, with the index."""
    named = options.get("device")
    if named is not None:
        return torch.device(named)
    return next((value.device for value in arguments if isinstance(value, torch.Tensor)), torch.device("cpu"))


def _size() -> int:
    """Bytes of a state in graphs: AOTAutograd takes those of the CPU's for the size of any other device's."""
    return int(torch.get_rng_state().numel())


def save(op: Any, *arguments: Any, **options: Any) -> tuple[torch.Tensor, Any]:
    """The generator's state, with zeros behind it, and the operator's result."""
    state = ocl.get_rng_state(_device(arguments, options))
    padded = torch.zeros(max(_size(), state.numel()), dtype=torch.uint8)
    padded[: state.numel()] = state
    return padded, op(*arguments, **options)


def run(state: torch.Tensor, op: Any, *arguments: Any, **options: Any) -> Any:
    """The operator's result with a state that save() has returned. The generator is left as it was."""
    device = _device(arguments, options)
    now = ocl.get_rng_state(device)
    ocl.set_rng_state(state[: now.numel()], device)
    try:
        return op(*arguments, **options)
    finally:
        ocl.set_rng_state(now, device)


def _predict(op: Any, *arguments: Any, **options: Any) -> tuple[torch.Tensor, Any]:
    """save() of tensors without memory."""
    return torch.empty(_size(), dtype=torch.uint8), op(*arguments, **options)


def _where_on_ocl(own: Callable[..., Any], original: Callable[..., Any], skip: int) -> Callable[..., Any]:
    """`own` for operators on ocl; the first `skip` arguments are not the operator's."""

    @functools.wraps(original)
    def choose(*arguments: Any, **options: Any) -> Any:
        ours = _device(arguments[skip:], options).type == "ocl"
        return (own if ours else original)(*arguments, **options)

    return choose


def _trace(hop: Any, mode: Any, op: Any, *arguments: Any, **options: Any) -> Any:
    """One node of the graph that is being written."""
    from torch.fx.experimental.proxy_tensor import track_tensor_tree
    from torch.utils import _pytree

    result = _predict(op, *arguments, **options)
    given, named = _pytree.tree_map(mode.tracer.unwrap_proxy, ((op, *arguments), options))
    node = mode.tracer.create_proxy("call_function", hop, given, named)
    return track_tensor_tree(result, node, constant=None, tracer=mode.tracer)


def install(rng_prims: Any) -> None:
    """Adds ocl to both operators of torch._prims.rng_prims."""
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    hops: dict[Any, tuple[Any, int]] = {
        rng_prims.run_and_save_rng_state: (save, 1),
        rng_prims.run_with_rng_state: (run, 2),
    }
    for hop, (own, skip) in hops.items():
        hop.py_impl(DispatchKey.PrivateUse1)(own)
        original: Any = hop.py_kernels[DispatchKey.BackendSelect]
        hop.py_kernels[DispatchKey.BackendSelect] = _where_on_ocl(own, original, skip)
    hop = rng_prims.run_and_save_rng_state
    registered_hop_fake_fns[hop] = _where_on_ocl(_predict, registered_hop_fake_fns[hop], 1)
    original = hop.python_key_table[ProxyTorchDispatchMode]
    hop.python_key_table[ProxyTorchDispatchMode] = _where_on_ocl(functools.partial(_trace, hop), original, 2)
