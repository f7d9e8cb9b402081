"""Lightning's Trainer and Fabric on `ocl`: an accelerator "ocl", which "auto" finds.

Lightning lets others register accelerators, but chooses devices, strategies and precisions by its own accelerators'
names. The places that matter are told of this one. Both packages are meant, `lightning` and `pytorch_lightning`.
"""

import functools
import os
import warnings
from types import ModuleType
from typing import Any

import torch

from . import ocl

NAME = "ocl"


def _is_meant(connector: Any) -> bool:
    """Whether a connector of Trainer or Fabric has chosen this package's accelerator."""
    return getattr(connector.accelerator, "name", lambda: None)() == NAME


def _ranks() -> int | None:
    """Processes that torchrun has started on this machine; None without it."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else None


def _parse(devices: Any, error: type[Exception]) -> list[int]:
    """Indices of devices from what a user gives: 2, -1, [0, 1], "2", "0,1". Ranks may share a device where there are
    fewer of them, if it is a CPU or torchrun has started the ranks."""
    count = ocl.device_count()
    if isinstance(devices, str):
        text = devices.strip()
        devices = [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    if isinstance(devices, (list, tuple)):
        wanted = list(devices)
    elif devices == -1:
        wanted = list(range(count))
    elif _ranks() is not None or not any(ocl.get_device_properties(i).is_gpu for i in range(count)):
        wanted = [i % count for i in range(devices)]
    else:
        wanted = list(range(devices))
    if not wanted or any(isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < count for i in wanted):
        raise error(f"You requested ocl devices: {wanted}\n But your machine only has: {list(range(count))}")
    return wanted


def _make_accelerator(base: Any, error: type[Exception]) -> type:
    class OclAccelerator(base):
        """Accelerator for OpenCL devices."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != NAME:
                raise error(f"Device should be ocl, got {device} instead")
            ocl.set_device(device)

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return ocl.memory_stats(device)

        def teardown(self) -> None:
            ocl.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return _parse(devices, error)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device(NAME, i) for i in devices]

        @staticmethod
        def auto_device_count() -> int:
            return _ranks() or ocl.device_count()

        @staticmethod
        def is_available() -> bool:
            return ocl.is_available()

        @staticmethod
        def name() -> str:
            return NAME

        @classmethod
        def register_accelerators(cls, registry: Any) -> None:
            registry.register(NAME, cls, description=cls.__name__)

    return OclAccelerator


def accelerators(module: ModuleType) -> None:
    """After the package of accelerators: one more."""
    fabric = hasattr(module, "ACCELERATOR_REGISTRY")
    registry = module.ACCELERATOR_REGISTRY if fabric else module.AcceleratorRegistry
    error: type[Exception] = ValueError
    if not fabric:
        from importlib import import_module

        error = import_module(module.__name__.rpartition(".")[0] + ".utilities.exceptions").MisconfigurationException
    _make_accelerator(module.Accelerator, error).register_accelerators(registry)  # type: ignore[attr-defined]


def connector(module: ModuleType) -> None:
    """After the module that turns the arguments of Trainer, or Fabric, into devices, a strategy and a precision."""
    kind = module._Connector if hasattr(module, "_Connector") else module._AcceleratorConnector
    choose_auto, choose_gpu = kind._choose_auto_accelerator, kind._choose_gpu_accelerator_backend
    choose_strategy, check_strategy = kind._choose_strategy, kind._check_strategy_and_fallback
    make_precision = kind._check_and_init_precision

    @functools.wraps(choose_auto)
    def _choose_auto_accelerator(*self: Any) -> str:
        found: str = choose_auto(*self)
        return NAME if found == "cpu" and ocl.is_available() else found

    @functools.wraps(choose_gpu)
    def _choose_gpu_accelerator_backend() -> str:
        if not torch.cuda.is_available() and any(
            ocl.get_device_properties(i).is_gpu for i in range(ocl.device_count())
        ):
            return NAME
        found: str = choose_gpu()
        return found

    @functools.wraps(choose_strategy)
    def _choose_strategy(self: Any) -> Any:
        chosen = choose_strategy(self)
        if _is_meant(self) and isinstance(chosen, module.SingleDeviceStrategy):
            return type(chosen)(device=self._parallel_devices[0])
        return chosen

    @functools.wraps(check_strategy)
    def _check_strategy_and_fallback(self: Any) -> None:
        kept = self._accelerator_flag
        self._accelerator_flag = "cuda" if _is_meant(self) else kept  # FSDP is for its name only
        try:
            check_strategy(self)
        finally:
            self._accelerator_flag = kept

    @functools.wraps(make_precision)
    def _check_and_init_precision(self: Any) -> Any:
        if not _is_meant(self):
            return make_precision(self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*CUDA is not available.*")  # of a scaler that is replaced
            made = make_precision(self)
        given = getattr(self, "_precision_plugin_flag", None) or getattr(self, "_precision_instance", None)
        if made is not given and type(made) is module.MixedPrecision:
            return type(made)(made.precision, NAME)
        return made

    kind._choose_auto_accelerator = staticmethod(_choose_auto_accelerator)
    kind._choose_gpu_accelerator_backend = staticmethod(_choose_gpu_accelerator_backend)
    kind._choose_strategy = _choose_strategy
    kind._check_strategy_and_fallback = _check_strategy_and_fallback
    kind._check_and_init_precision = _check_and_init_precision


def strategy_ddp(module: ModuleType) -> None:
    """Without lists of devices, which would bring a stream of CUDA's along, and with communication hooks."""
    kind = module.DDPStrategy
    for name in ("determine_ddp_device_ids", "_determine_ddp_device_ids"):
        if hasattr(kind, name):
            setattr(kind, name, _no_device_ids(getattr(kind, name)))
    if not hasattr(kind, "_register_ddp_hooks"):
        return
    register = kind._register_ddp_hooks

    @functools.wraps(register)
    def _register_ddp_hooks(self: Any) -> None:
        if self.root_device.type != NAME:
            register(self)
            return
        module._register_ddp_comm_hook(
            model=self.model,
            ddp_comm_state=self._ddp_comm_state,
            ddp_comm_hook=self._ddp_comm_hook,
            ddp_comm_wrapper=self._ddp_comm_wrapper,
        )

    kind._register_ddp_hooks = _register_ddp_hooks


def _no_device_ids(original: Any) -> Any:
    @functools.wraps(original)
    def device_ids(self: Any) -> Any:
        return None if self.root_device.type == NAME else original(self)

    return device_ids


def strategy_fsdp(module: ModuleType) -> None:
    """A mesh that is given by its shape is one of this device."""
    from torch.distributed.device_mesh import init_device_mesh

    kind = module.FSDPStrategy
    setup = kind.setup_environment

    @functools.wraps(setup)
    def setup_environment(self: Any) -> None:
        options = getattr(self, "_fsdp_kwargs", None)
        if options is None:
            options = self.kwargs
        shape = options.get("device_mesh")
        if self.root_device.type != NAME or not isinstance(shape, tuple):
            setup(self)
            return
        del options["device_mesh"]
        setup(self)
        options["device_mesh"] = init_device_mesh(NAME, shape)

    kind.setup_environment = setup_environment


def precision_fsdp(module: ModuleType) -> None:
    """autocast and the scaler of FSDP on this device, where there is no CUDA."""
    kind = module.FSDPPrecision
    init, forward = kind.__init__, kind.forward_context

    @functools.wraps(init)
    def __init__(self: Any, precision: Any, scaler: Any = None) -> None:
        with warnings.catch_warnings():
            if not torch.cuda.is_available():
                warnings.filterwarnings("ignore", ".*CUDA is not available.*")
            init(self, precision, scaler)
        if scaler is None and self.scaler is not None and not torch.cuda.is_available():
            self.scaler = type(self.scaler)(NAME)

    @functools.wraps(forward)
    def forward_context(self: Any) -> Any:
        if "mixed" in self.precision and not torch.cuda.is_available():
            return torch.autocast(NAME, torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16)
        return forward(self)

    kind.__init__, kind.forward_context = __init__, forward_context
