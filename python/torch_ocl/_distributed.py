"""torch.distributed for the device: a backend `ocl_gloo`, chosen where scripts leave the choice or ask for "gloo"."""

import atexit
import functools
import os
import sys
from datetime import timedelta
from typing import Any

import torch

from . import _core, _restarts, ocl

NAME = "ocl_gloo"


@functools.cache
def register() -> None:
    """Tells torch.distributed of the backend; nothing where PyTorch was built without it, or without Gloo."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available() and _core.loaded()):
        return
    if not hasattr(_core.core(), "add_to_process_group"):  # torch_ocl was built with a PyTorch that has none
        return
    from torch.distributed import distributed_c10d

    distributed_c10d.Backend.register_backend(NAME, _create, devices=["ocl"])
    # What init_process_group(device_id=torch.device("ocl", 0)) takes: a group that serves the CPU as well.
    distributed_c10d.Backend.default_device_backend_map["ocl"] = "gloo"
    _patch_names(distributed_c10d)
    _patch_bfloat16_hooks()
    _patch_device_ids(distributed_c10d)
    _restarts.patch(sys.modules["torch.distributed.rendezvous"])  # torch.distributed has a function of that name
    # A process may end without destroy_process_group(): no thread of a group may use a device after its runtime.
    atexit.register(_core.core().close_process_groups)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    _choose_device()
    gloo = torch.distributed.ProcessGroupGloo(store, rank, size, timeout=timeout)
    gloo._set_sequence_number_for_group()  # PyTorch does it for backends that it knows by name
    return _with_device(store, rank, size, gloo)


def _with_device(store: Any, rank: int, size: int, gloo: Any) -> Any:
    """The backend of the device on top of `gloo`. A group that lives for this call, found by its name, carries both
    between Python and C++, because the glue does not know the classes of torch.distributed."""
    c10d: Any = torch._C._distributed_c10d
    group = c10d.ProcessGroup(store, rank, size)
    group._register_backend(torch.device("cpu"), c10d.ProcessGroup.BackendType.GLOO, gloo)
    name = f"torch_ocl {id(group)}"
    c10d._register_process_group(name, group)
    try:
        _core.core().add_to_process_group(name)
    finally:
        c10d._unregister_process_group(name)
    return group._get_backend(torch.device("ocl"))


def _launched_rank() -> int | None:
    try:
        return int(os.environ["LOCAL_RANK"])
    except (KeyError, ValueError):
        return None


def _choose_device() -> None:
    """Under a launcher each rank has a device of its own, as far as there are enough; who has used one keeps it."""
    rank, count = _launched_rank(), ocl.device_count()
    if rank is not None and count > 1 and not ocl.is_initialized():
        ocl.set_device(rank % count)


def _patch_names(distributed_c10d: Any) -> None:
    """PyTorch takes "gloo", and no backend at all, for devices that it knows.

    Here both mean Gloo for the CPU and this backend for `ocl` tensors, so that collectives of Python objects, barriers
    and checkpoints find the CPU. No backend, and "cpu:gloo,ocl:gloo", which says the same, become "gloo": of names with
    devices PyTorch makes none the default, and monitored_barrier() asks for the name.
    """
    config, backend = distributed_c10d.BackendConfig, distributed_c10d.Backend
    config_init, backend_new = config.__init__, backend.__new__

    @functools.wraps(config_init)
    def __init__(self: Any, name: Any) -> None:
        config_init(self, name)
        devices = self.device_backend_map
        if str(name) == "gloo" or devices.get("ocl") == "gloo":
            devices["ocl"] = NAME
            if not torch.cuda.is_available():
                devices.pop("cuda", None)  # a connection to every rank for nothing

    @functools.wraps(backend_new)
    def __new__(cls: Any, name: Any) -> Any:
        if isinstance(name, str) and _means_gloo(name.lower()):
            name = "gloo"
        return backend_new(cls, name)

    config.__init__ = __init__
    backend.__new__ = __new__


def _means_gloo(name: str) -> bool:
    if name == "undefined":  # what PyTorch calls no backend
        return bool(torch._C._get_accelerator().type == "ocl")
    return sorted(name.split(",")) in (["cpu:gloo", "ocl:gloo"], ["cpu:gloo", f"ocl:{NAME}"])


def _patch_bfloat16_hooks() -> None:
    """PyTorch lets hooks that compress to bfloat16, which it knows by name, in with CUDA's and XPU's libraries only."""
    from torch._C._distributed_c10d import GradBucket
    from torch.nn.parallel import DistributedDataParallel

    check = DistributedDataParallel._check_comm_hook

    def any_hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        raise NotImplementedError  # PyTorch looks at its arguments only

    @functools.wraps(check)
    def _check_comm_hook(self: Any, hook: Any) -> None:
        known = getattr(hook, "__name__", "") in ("bf16_compress_hook", "bf16_compress_wrapper_hook")
        check(self, any_hook if known and self.device_type == "ocl" else hook)

    DistributedDataParallel._check_comm_hook = _check_comm_hook  # type: ignore[method-assign]


def _shared_device(index: Any) -> Any:
    """A local rank that is no index of a device stands for the device that set_device() chooses for it."""
    count = ocl.device_count()
    return index % count if isinstance(index, int) and index == _launched_rank() and index >= count > 0 else index


def _patch_device_ids(distributed_c10d: Any) -> None:
    """DistributedDataParallel(model, device_ids=[local_rank]) and barrier(device_ids=[local_rank]), as scripts and
    libraries call them, on shared devices."""
    from torch.nn.parallel import DistributedDataParallel

    init = DistributedDataParallel.__init__

    @functools.wraps(init)
    def __init__(
        self: Any,
        module: torch.nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        *rest: Any,
        **options: Any,
    ) -> None:
        first = next(module.parameters(), None)
        if first is not None and first.device.type == "ocl":
            if isinstance(device_ids, (list, tuple)):
                device_ids = [_shared_device(index) for index in device_ids]
            output_device = _shared_device(output_device)
        init(self, module, device_ids, output_device, *rest, **options)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]

    barrier = distributed_c10d.barrier

    @functools.wraps(barrier)
    def shared_barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        if isinstance(device_ids, list) and torch._C._get_accelerator().type == "ocl":
            device_ids = [_shared_device(index) for index in device_ids]
        return barrier(group, async_op, device_ids)

    for module in (distributed_c10d, torch.distributed):
        vars(module)["barrier"] = shared_barrier
