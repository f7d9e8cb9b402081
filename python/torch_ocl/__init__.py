"""torch_ocl: the device `ocl` for PyTorch, on anything that has an OpenCL driver.

Importing this package always loads the backend. `import torch` loads it by itself where an OpenCL device is the only
accelerator (see TORCH_OCL_AUTOLOAD in docs/generated/environment.md).
"""

from pathlib import Path

import torch
from torch.utils import backend_registration

from . import _core
from ._torchvision import import_torchvision, watch_import
from ._version import __version__

__all__ = [
    "NAME",
    "__version__",
    "gguf",
    "import_torchvision",
    "include_path",
    "library_path",
    "optimize",
    "quantize_",
]

NAME = "ocl"


def include_path() -> str:
    """Folder of the headers for operators in C++ (torch_ocl/extension.h); examples/cpp_extension uses it."""
    return str(Path(__file__).parent / "include")


def library_path() -> str:
    """The library that registers the device in a C++ program (examples/cpp_train)."""
    return str(_core.library_folder() / "libtorch_ocl.so")


def _check_name_is_free() -> None:
    taken = torch._C._get_privateuse1_backend_name()
    if taken == "privateuseone":
        return
    if taken != NAME or hasattr(torch, NAME):
        raise RuntimeError(
            f"torch_ocl cannot be loaded: another package has already renamed PyTorch's PrivateUse1 device to "
            f"{taken!r}. "
            "Only one such backend fits into a process. Uninstall the other one (`pip list` shows it; `pytorch-ocl` "
            "takes the "
            "same name), or import torch_ocl before it and start Python with TORCH_DEVICE_BACKEND_AUTOLOAD=0."
        )


def _load() -> None:
    _check_name_is_free()
    _core.load()
    backend_registration.rename_privateuse1_backend(NAME)

    from . import _accelerate, _imports, _patches, _safetensors, _transformers, backends, inductor, ocl

    ocl._register()
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    backends._register()
    _patches.apply()
    _accelerate.announce()
    _safetensors.apply()
    _transformers.watch()
    _imports.watch_lightning()
    _imports.watch_bitsandbytes()
    _imports.watch_torchao()
    _imports.watch_dtensor()
    watch_import()
    inductor.watch()


_load()

from . import gguf  # noqa: E402  needs the device
from .optimization import optimize  # noqa: E402
from .quantization import quantize_  # noqa: E402
