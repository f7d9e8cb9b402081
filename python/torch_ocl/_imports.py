"""What happens when a library is imported that has to be told of the device. Nothing of it is imported for that."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]
Wrap = Callable[[importlib.abc.Loader], importlib.abc.Loader]

_wraps: dict[str, list[Wrap]] = {}  # by the module's full name


class _Loader(importlib.abc.Loader):
    """A module's own loader, and something to do afterwards."""

    def __init__(self, loader: Any, action: Action) -> None:
        self.loader, self.action = loader, action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action(module)

    def __getattr__(self, name: str) -> Any:  # get_source and the like
        return getattr(self.loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the finders behind it find, and gives it other loaders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _wraps:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    for wrap in _wraps[name]:
                        spec.loader = wrap(spec.loader)
                return spec
        return None


_FINDER = _Finder()


def wrap_loader(name: str, wrap: Wrap) -> None:
    """The module `name`, when it is imported, is loaded by wrap(its loader)."""
    _wraps.setdefault(name, []).append(wrap)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def after(name: str, action: Action) -> None:
    """Runs action(module) whenever the module `name` has been imported, and at once where it is there already."""
    wrap_loader(name, lambda loader: _Loader(loader, action))
    if name in sys.modules:
        action(sys.modules[name])


def by_name(function: str) -> Action:
    """The action torch_ocl.MODULE.NAME, given as "MODULE.NAME"; its module is imported with the first call."""
    module, _, name = function.rpartition(".")

    def action(imported: ModuleType) -> None:
        getattr(importlib.import_module(f"torch_ocl.{module}"), name)(imported)

    return action


_FABRIC = {
    "accelerators": "_lightning.accelerators",
    "connector": "_lightning.connector",
    "strategies.ddp": "_lightning.strategy_ddp",
    "strategies.fsdp": "_lightning.strategy_fsdp",
    "plugins.precision.fsdp": "_lightning.precision_fsdp",
}
_TRAINER = {name: action for name, action in _FABRIC.items() if name != "connector"} | {
    "trainer.connectors.accelerator_connector": "_lightning.connector"
}
# Lightning is published under two names each.
_LIGHTNING = {
    "lightning.fabric": _FABRIC,
    "lightning_fabric": _FABRIC,
    "lightning.pytorch": _TRAINER,
    "pytorch_lightning": _TRAINER,
}


def watch_lightning() -> None:
    """Lightning has this device from its import on."""
    for package, actions in _LIGHTNING.items():
        for name, action in actions.items():
            after(f"{package}.{name}", by_name(action))


def watch_bitsandbytes() -> None:
    """bitsandbytes has its operators for this device from its import on."""
    after("bitsandbytes._ops", by_name("_bitsandbytes.register"))
    after("bitsandbytes", by_name("_bitsandbytes.announce"))


_TORCHAO = {
    "int8.int8_tensor": "int8",
    "float8.float8_tensor": "float8",
    "intx.intx_unpacked_to_int8_tensor": "intx",
    "int4.int4_tensor": "int4_plain",
    "int4.int4_plain_int32_tensor": "int4_plain_int32",
    "int4.int4_tile_packed_to_4d_tensor": "int4_tile_packed",
}


def watch_torchao() -> None:
    """torchao's tensors have their products on this device from their import on."""
    for name, action in _TORCHAO.items():
        after(f"torchao.quantization.quantize_.workflows.{name}", by_name(f"_torchao.{action}"))


def watch_dtensor() -> None:
    """DTensor has rules for this device's attention from its import on."""
    after("torch.distributed.tensor._ops._matrix_ops", by_name("_dtensor.register"))
    after("torch.distributed.tensor.experimental._context_parallel._attention", by_name("_dtensor.add_ring"))
