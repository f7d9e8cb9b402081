"""Tells Hugging Face's Accelerate and transformers that `ocl` is this machine's accelerator.

Both know devices by name and take the CPU where they find none of them, without a word. Accelerate's own way out is the
variable ACCELERATE_TORCH_DEVICE, which it reads when the first Accelerator is made. It covers the device and no more:
under torchrun each process would train alone, and fp16, bf16, device maps and the states of random generators would be
refused or left out. What is missing is added to their modules when they are imported.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from _torch_ocl_boot import accelerators, loader

from . import _core, _imports, ocl

VARIABLE = "ACCELERATE_TORCH_DEVICE"
NAME = "ocl"


def announce() -> None:
    """Sets the variable where `ocl` is the only accelerator. What a user says stays: another device, or the CPU."""
    if os.environ.get("ACCELERATE_USE_CPU", "").strip().lower() in {"1", "true", "yes", "y", "t", "on"}:
        # `accelerate launch --cpu` says so to a process that has inherited the variable.
        if os.environ.get(VARIABLE) == NAME:
            del os.environ[VARIABLE]
        return
    if VARIABLE not in os.environ:
        if accelerators.other() or not _core.loaded() or loader.probe() == 0:
            return
        os.environ[VARIABLE] = NAME
    if _chosen():
        for name, action in ACTIONS.items():
            _imports.after(name, action)


def _chosen() -> bool:
    return os.environ.get(VARIABLE) == NAME


class _TorchForOcl(ModuleType):
    """torch as a library should see it that asks `torch.cuda` for everything that concerns the accelerator."""

    cuda = ocl

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


_TORCH = _TorchForOcl("torch")


@contextlib.contextmanager
def _ocl_for_cuda(module: ModuleType) -> Iterator[None]:
    """What the module asks `torch.cuda` inside the block, `torch.ocl` answers."""
    if not _chosen():
        yield
        return
    stand_ins: dict[str, Any] = {"torch": _TORCH, "is_cuda_available": ocl.is_available}
    kept = {name: vars(module)[name] for name in stand_ins if name in vars(module)}
    vars(module).update({name: stand_ins[name] for name in kept})
    try:
        yield
    finally:
        vars(module).update(kept)


def _answer(module: ModuleType, *names: str) -> None:
    """Functions of the module, or methods (CLASS.NAME), find torch.ocl under torch.cuda. Names that a version of the
    library does not have are passed over."""
    for path in names:
        parent, _, name = path.rpartition(".")
        place: Any = getattr(module, parent, None) if parent else module
        original = getattr(place, name, None)
        if original is not None:
            setattr(place, name, _answered(module, original))


def _answered(module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*positional: Any, **options: Any) -> Any:
        with _ocl_for_cuda(module):
            return original(*positional, **options)

    return function


def _add_to_lists_of_devices(function: Any) -> None:
    """A function's constant tuples of names of devices have `ocl` as well."""
    constants = tuple(
        (*constant, NAME) if isinstance(constant, tuple) and {"cuda", "xpu", "npu"} <= set(constant) else constant
        for constant in function.__code__.co_consts
    )
    function.__code__ = function.__code__.replace(co_consts=constants)


def _after_state(state: ModuleType) -> None:
    """The device, and the group of processes under a launcher.

    The variable also beats a wish for the CPU (`Accelerator(cpu=True)`, `TrainingArguments(use_cpu=True)`), which
    worked before it was set; so that wish is listened to here.
    """
    original, prepare = state.PartialState.__init__, state.PartialState._prepare_backend

    @functools.wraps(original)
    def __init__(self: Any, *positional: Any, **options: Any) -> None:
        cpu = options.get("cpu", positional[0] if positional else False)
        hidden = os.environ.pop(VARIABLE, None) if cpu and _chosen() else None
        try:
            original(self, *positional, **options)
        finally:
            if hidden is not None:
                os.environ[VARIABLE] = hidden
        if self.distributed_type != state.DistributedType.NO and self.device.type == NAME and self.device.index is None:
            self.device = torch.device(NAME, ocl.current_device())

    @functools.wraps(prepare)
    def _prepare_backend(self: Any, *positional: Any, **options: Any) -> Any:
        backend, kind = prepare(self, *positional, **options)
        launched = int(os.environ.get("LOCAL_RANK", "-1")) != -1
        if kind == state.DistributedType.NO and launched and self.device is not None and self.device.type == NAME:
            return backend or "gloo", state.DistributedType.MULTI_GPU
        return backend, kind

    default: Any = getattr(state.PartialState, "default_device", None)

    def default_device(self: Any) -> torch.device:
        """What hooks take that were given no device, cpu_offload_with_hook among them."""
        device = default.fget(self)
        return torch.device(NAME) if device.type == "cpu" and _chosen() else device

    if isinstance(default, property):
        state.PartialState.default_device = property(default_device, doc=default.__doc__)
    state.PartialState.__init__ = __init__
    state.PartialState._prepare_backend = _prepare_backend


def _after_modeling(modeling: ModuleType) -> None:
    _answer(modeling, "get_max_memory")
    original = modeling.get_grad_scaler

    @functools.wraps(original)
    def get_grad_scaler(distributed_type: Any = None, **options: Any) -> Any:
        if not _chosen():
            return original(distributed_type, **options)
        if getattr(distributed_type, "value", distributed_type) == "FSDP":
            from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

            return ShardedGradScaler(NAME, **options)
        return torch.amp.GradScaler(NAME, **options)

    vars(modeling)["get_grad_scaler"] = get_grad_scaler


def _after_import_utils(utils: ModuleType) -> None:
    original = utils.is_torch_bf16_gpu_available

    @functools.wraps(original)
    def is_torch_bf16_gpu_available() -> bool:
        return bool(original()) or (_chosen() and ocl.is_available())

    vars(utils)["is_torch_bf16_gpu_available"] = is_torch_bf16_gpu_available


# Functions that are imported by name elsewhere are replaced in the module that defines them, which is loaded first.
ACTIONS: dict[str, _imports.Action] = {
    "accelerate.state": _after_state,
    "accelerate.utils.modeling": _after_modeling,
    "accelerate.utils.dataclasses": lambda m: _answer(m, "FullyShardedDataParallelPlugin.__post_init__"),
    "accelerate.checkpointing": lambda m: _answer(m, "save_accelerator_state", "load_accelerator_state"),
    "accelerate.accelerator": lambda m: _add_to_lists_of_devices(m.Accelerator.__init__),
    "accelerate.commands.launch": lambda m: _answer(m, "_validate_launch_command"),
    "transformers.utils.import_utils": _after_import_utils,
    "transformers.integrations.accelerate": lambda m: _answer(m, "get_max_memory"),
    "transformers.trainer": lambda m: _answer(m, "Trainer._save_rng_state", "Trainer._load_rng_state"),
}
