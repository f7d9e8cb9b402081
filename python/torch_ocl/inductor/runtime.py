"""What generated modules use: the kernels of a graph, built together before its first call."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from . import fallback
from .source import program_text

# Kernels of one program. A driver compiles a program at a time; several programs go to several processes.
KERNELS_OF_A_PROGRAM = 8


assert_input: Any = torch._C._dynamo.guards.assert_size_stride


def assert_size_stride(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], *more: Any) -> None:
    """Inductor's check of what an operator without a generated kernel has returned. Another memory order than the
    predicted one (fake.py) is mended by a copy, in place; the graph would fail otherwise."""
    try:
        assert_input(tensor, size, stride, *more)
    except AssertionError:
        of_input = not more or more[0] == "input"
        if of_input or fallback.strict or tensor.device.type != "ocl" or tuple(tensor.shape) != tuple(size):
            raise
        copy = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
        tensor.set_(copy.untyped_storage(), 0, tuple(size), tuple(stride))
        assert_input(tensor, size, stride, *more)


class KernelBuildError(RuntimeError):
    """The driver did not compile a generated kernel."""


@dataclasses.dataclass
class _Kernel:
    name: str
    kinds: str
    grid: int
    alignment: int
    errors: list[str]
    functions: str
    includes: list[str]
    atomics: list[str]
    source: str


class GraphKernels:
    """The kernels of one compiled graph. `width`: lanes of a value in them."""

    def __init__(self, device: int, width: int) -> None:
        self.device = device
        self.width = width
        self._kernels: list[_Kernel] = []

    def add(self, name: str, kinds: str, **options: Any) -> None:
        """Notes a kernel (scheduling.py says what of); build() returns it."""
        self._kernels.append(_Kernel(name, kinds, **options))

    def build(self) -> dict[str, Any]:
        """Builds all, in parallel where the device can. Returns {name: a callable}.

        Raises KernelBuildError with the compiler's log."""
        made: dict[str, tuple[Any, Any, Any]] = {}
        by_type: dict[tuple[str, bool], list[_Kernel]] = {}
        for kernel in self._kernels:  # atomics are a large header
            by_type.setdefault((kernel.functions, bool(kernel.atomics)), []).append(kernel)
        for (functions, _), kernels in by_type.items():
            for i in range(0, len(kernels), KERNELS_OF_A_PROGRAM):
                made.update(self._program(kernels[i : i + KERNELS_OF_A_PROGRAM], functions))
        self._kernels = []
        try:
            for _, start, _ in made.values():
                start(self.device)
            for _, _, finish in made.values():
                finish(self.device)
        except RuntimeError as error:
            raise KernelBuildError(str(error)) from error
        return {name: kernel for name, (kernel, _, _) in made.items()}

    def graph(self, call: Any, slots: int, inputs: Any, steps: Any, outputs: list[int]) -> Any:
        """`call`, the function of a graph, without Python (direct.py, csrc/torch/python/generated_graph.h)."""
        return _core.core().generated_graph(call, self.device, slots, inputs, steps, outputs)

    def _program(self, kernels: list[_Kernel], functions: str) -> dict[str, tuple[Any, Any, Any]]:
        includes = dict.fromkeys(file for kernel in kernels for file in kernel.includes)
        atomics = dict.fromkeys(kind for kernel in kernels for kind in kernel.atomics)
        dtype = getattr(torch, functions.removeprefix("torch."))
        text = program_text((kernel.source for kernel in kernels), self.width, dtype, includes, atomics)
        make = _core.core().generated_kernel
        return {
            kernel.name: make("inductor", kernel.name, text, kernel.kinds, kernel.grid, kernel.alignment, kernel.errors)
            for kernel in kernels
        }
