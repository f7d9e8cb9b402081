"""What Inductor finds when it looks for the code generator of `ocl`: that there is none, and what to use instead."""

import functools
from typing import Any

HINT = (
    "torch.compile's default backend, Inductor, has no code generator for ocl devices. Use torch.compile(model, "
    "backend='aot_eager') or "
    "backend='eager', or leave torch.compile out."
)
# Inductor asks the device's module for these when it compiles for the first time, whatever the device.
NAMES = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


@functools.cache
def codegen() -> type:
    """The class that stands for each of NAMES: it raises when code for `ocl` is to be generated."""
    from torch._inductor.codegen import common
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    class NoCodegen(PythonWrapperCodegen):
        @staticmethod
        def create(*arguments: Any, **options: Any) -> Any:
            raise NotImplementedError(HINT)

        def __init__(self, *arguments: Any, **options: Any) -> None:
            raise NotImplementedError(HINT)

    common.get_device_op_overrides("cpu")  # PyTorch's own are only loaded while there are none
    common.register_device_op_overrides("ocl", common.DeviceOpOverrides())
    return NoCodegen
