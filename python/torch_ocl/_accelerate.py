"""Tells Hugging Face's Accelerate, and with it transformers' Trainer, that `ocl` is this machine's accelerator.

Accelerate knows devices by name and takes the CPU where it finds none of them, without a word. Its own way out is the
variable ACCELERATE_TORCH_DEVICE, which it reads when the first Accelerator is made. The variable also beats a wish for
the CPU (`Accelerator(cpu=True)`, `TrainingArguments(use_cpu=True)`), which worked before it was set; so that wish is
listened to here.
"""

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from _torch_ocl_boot import accelerators, loader

from . import _core

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
    if os.environ[VARIABLE] == NAME:
        _after_import("accelerate.state", _listen_to_the_wish_for_the_cpu)


def _listen_to_the_wish_for_the_cpu(state: ModuleType) -> None:
    original = state.PartialState.__init__

    @functools.wraps(original)
    def __init__(self: object, *positional: Any, **options: Any) -> None:
        cpu = options.get("cpu", positional[0] if positional else False)
        hidden = os.environ.pop(VARIABLE, None) if cpu and os.environ.get(VARIABLE) == NAME else None
        try:
            original(self, *positional, **options)
        finally:
            if hidden is not None:
                os.environ[VARIABLE] = hidden

    state.PartialState.__init__ = __init__


def _after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Runs action(module) when the module is imported, or now where it has been."""
    if name in sys.modules:
        action(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Watcher(name, action))


class _Watcher:
    """A finder that finds what the others find, once, and adds an action to the module's loading."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name, self.action = name, action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self.action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
