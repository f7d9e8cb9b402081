"""What Inductor finds when it looks for the code generator of `ocl`: that there is none, and what to use instead."""

HINT = (
    "torch.compile's default backend, Inductor, has no code generator for ocl devices. Use torch.compile(model, backend='aot_eager') or "
    "backend='eager', or leave torch.compile out."
)


class NoCodegen:
    """Stands for Scheduling, PythonWrapperCodegen, ... of torch.ocl; Inductor asks the device's module for them when it compiles for the first time."""

    @classmethod
    def create(cls, *arguments, **options):
        raise NotImplementedError(HINT)

    def __init__(self, *arguments, **options):
        raise NotImplementedError(HINT)


NAMES = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


def codegen(name):
    """The class for one of NAMES."""
    from torch._inductor.codegen import common

    common.get_device_op_overrides("cpu")  # PyTorch's own are only loaded while there are none
    if "ocl" not in common.device_op_overrides_dict:
        common.register_device_op_overrides("ocl", common.DeviceOpOverrides())
    return NoCodegen
