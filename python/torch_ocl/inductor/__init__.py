"""torch.compile for `ocl`: Inductor, PyTorch's compiler, with OpenCL C as its output.

Nothing of it is imported with torch_ocl: watch() waits until Dynamo or Inductor are, and tells them of the device.
"""

import functools
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import _imports

NAMES = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


@functools.cache
def register_interface() -> None:
    """The device for Dynamo. Inductor's list of GPU types may be made of it."""
    from torch._dynamo import device_interface

    from .. import ocl
    from .interface import OclInterface

    for name in ("ocl", *(f"ocl:{i}" for i in range(ocl.device_count()))):
        device_interface.register_interface_for_device(name, OclInterface)


@functools.cache
def register() -> None:
    """The code generator for Inductor."""
    from torch._inductor.codegen import common

    from . import capture, fallback, lowerings, packages, upstream
    from .scheduling import OclScheduling
    from .wrapper import OclDeviceOpOverrides, OclWrapper

    def part(name: str) -> Any:  # not an attribute of its package while that is being imported
        return importlib.import_module(f"torch._inductor.{name}")

    upstream.create_backend_without_triton(part("scheduler"), common, part("virtualized"))
    upstream.cache_key_names_the_device(part("codecache"))
    upstream.split_reductions_by_units(part("choices"))
    upstream.keep_layouts(part("config"))
    upstream.take_unaligned_inputs(part("compile_fx"))
    capture.install(part("compile_fx"), part("output_code"), part("cudagraph_utils"))
    fallback.install(part("compile_fx"))
    packages.install(part("compile_fx"))
    lowerings.install(part("lowering"))
    common.register_backend_for_device("ocl", OclScheduling, OclWrapper)
    common.register_device_op_overrides("ocl", OclDeviceOpOverrides())


def _after_device_interface(module: ModuleType) -> None:
    register_interface()


def _after_utils(module: ModuleType) -> None:
    from . import upstream

    upstream.join_gpu_types(module)
    upstream.no_templates(module)


def _after_compile_fx(module: ModuleType) -> None:
    register()


def _after_fake_impls(module: ModuleType) -> None:
    from . import fake

    fake.install(module)


def _after_compile_of_autograd(module: ModuleType) -> None:
    from . import rng

    rng.install(importlib.import_module("torch._prims.rng_prims"))


def _after_packages(module: ModuleType) -> None:
    from . import packages

    packages.install_loader(module)


def _after_flex_attention(module: ModuleType) -> None:
    from .. import _flex_attention

    _flex_attention.accept(module)


def _after_trace_rules(module: ModuleType) -> None:
    """Dynamo looks into no function of this package but those that are parts of networks or of PyTorch's functions."""
    for part in pkgutil.iter_modules([str(Path(__file__).parents[1])]):
        if part.name not in ("onnx", "_flex_attention"):
            module.add(f"torch_ocl.{part.name}")


_WATCHED: dict[str, _imports.Action] = {
    "torch._dynamo.device_interface": _after_device_interface,
    "torch._dynamo.trace_rules": _after_trace_rules,
    "torch._inductor.utils": _after_utils,
    "torch._subclasses.fake_impls": _after_fake_impls,
    "torch._inductor.compile_fx": _after_compile_fx,
    "torch.export.pt2_archive._package": _after_packages,
    "torch._functorch.partitioners": _after_compile_of_autograd,
    "torch.nn.attention.flex_attention": _after_flex_attention,
}


@functools.cache
def watch() -> None:
    """Registers the device with the parts of the compiler that are imported already, and later with the others."""
    for name, action in _WATCHED.items():
        _imports.after(name, action)


def code_generator(name: str) -> Any:
    """What Inductor looks for in torch.ocl under NAMES when nothing is registered yet."""
    register()
    from torch._inductor.codegen import common

    row = common.device_codegens["ocl"]
    return {"Scheduling": row.scheduling, "PythonWrapperCodegen": row.wrapper_codegen}.get(name)
