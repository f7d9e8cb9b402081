"""`torch.backends.ocl`: switches that trade speed against precision or repeatability."""

import contextlib
import sys
import types
from collections.abc import Iterator

import torch

from .. import _core
from ..ocl import is_available

_WINOGRAD = ("auto", "precise", "off")


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise ValueError(f"torch.backends.ocl.{name} is True or False, not {value!r}")
    return bool(value)


class _Switches(types.ModuleType):
    """Attributes instead of functions, as in the other torch.backends."""

    @property
    def winograd(self) -> str:
        """Winograd convolutions: "auto" (F(4x4), fastest), "precise" (F(2x2), error near a direct convolution) or
        "off"."""
        return _core.core().winograd_mode()

    @winograd.setter
    def winograd(self, mode: str | bool) -> None:
        if isinstance(mode, (bool, int)) and mode in (0, 1):
            mode = "auto" if mode else "off"
        if not isinstance(mode, str) or mode not in _WINOGRAD:
            raise ValueError(
                f"torch.backends.ocl.winograd is one of {', '.join(_WINOGRAD)}, True (auto) or False (off), "
                f"not {mode!r}"
            )
        _core.core().set_winograd_mode(mode)

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products and convolutions may be rounded to TF32 where the device's tensor cores multiply
        that faster (off by default). For products torch.set_float32_matmul_precision("high") and
        torch.backends.cuda.matmul.allow_tf32 say so as well."""
        return _core.core().tf32_allowed()

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        _core.core().allow_tf32(_flag("allow_tf32", value))

    @property
    def benchmark(self) -> bool:
        """Whether every new convolution or matrix product is measured once with all algorithms that can run it, to keep
        the quickest (as torch.backends.cudnn.benchmark; off by default, TORCH_OCL_TUNE=1). What was found is stored for
        the device and used from then on."""
        return _core.core().tuning()

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        _core.core().set_tuning(_flag("benchmark", value))

    @property
    def deterministic(self) -> bool:
        """Same inputs, same bits: atomics-free kernels. The same switch as torch.use_deterministic_algorithms()."""
        return torch.are_deterministic_algorithms_enabled()

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        torch.use_deterministic_algorithms(_flag("deterministic", value))

    def is_available(self) -> bool:
        """Whether there is a device to use. Never raises."""
        return is_available()

    @contextlib.contextmanager
    def flags(
        self,
        winograd: str | bool | None = None,
        deterministic: bool | None = None,
        benchmark: bool | None = None,
        allow_tf32: bool | None = None,
    ) -> Iterator[None]:
        """Switches for the length of a with block; None leaves a switch as it is."""
        before = self.winograd, self.deterministic, self.benchmark, self.allow_tf32
        try:
            if winograd is not None:
                self.winograd = winograd
            if deterministic is not None:
                self.deterministic = deterministic
            if benchmark is not None:
                self.benchmark = benchmark
            if allow_tf32 is not None:
                self.allow_tf32 = allow_tf32
            yield
        finally:
            self.winograd, self.deterministic, self.benchmark, self.allow_tf32 = before


def _register() -> None:
    switches = _Switches("torch.backends.ocl", _Switches.__doc__)
    sys.modules["torch.backends.ocl"] = switches
    setattr(torch.backends, "ocl", switches)  # noqa: B010  PyTorch's types know no `ocl`
