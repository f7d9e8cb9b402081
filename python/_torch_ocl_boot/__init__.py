"""What `import torch` runs (entry point group torch.backends): decides whether to load torch_ocl.

It is a package of its own because importing `torch_ocl` always loads the backend, and `import torch` must be able to
decline.
"""

import functools
import os
import warnings

_OFF = {"0", "off", "no", "false"}
_ON = {"1", "on", "yes", "true"}


@functools.cache  # Python's own "once" forgets when a package changes the filters, as several do while torch loads
def _warn_about(setting: str) -> None:
    warnings.warn(
        f"TORCH_OCL_AUTOLOAD={setting} is not accepted (auto, 1 or 0): the default is used (auto)", stacklevel=3
    )


def reason_not_to_load() -> str | None:
    """None when the backend should be loaded, otherwise the reason in words (policy: docs/design/lifetime.md)."""
    import torch

    from . import accelerators, loader

    setting = os.environ.get("TORCH_OCL_AUTOLOAD", "auto").strip().lower()
    if setting in _OFF:
        return "TORCH_OCL_AUTOLOAD forbids it"
    if setting not in {*_ON, "auto", ""}:
        _warn_about(setting)
    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        return f"another backend took the PrivateUse1 slot under the name {name!r}"
    if setting in _ON:
        return None
    other = accelerators.other()
    if other:
        return f"{other} is the accelerator of this machine"
    if loader.library() is None:
        return "there is no OpenCL loader"
    if loader.probe() == 0:
        return "there is no OpenCL device"
    return None


def autoload() -> None:
    """Called at the end of `import torch`; must not raise, or `import torch` fails."""
    try:
        if reason_not_to_load() is None:
            import torch_ocl  # noqa: F401
    except Exception as error:
        warnings.warn(f"torch_ocl was not loaded: {error}", stacklevel=2)
