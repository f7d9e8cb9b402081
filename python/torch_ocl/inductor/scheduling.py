"""What Inductor's scheduler asks of a device: which nodes are fused, and the kernels for them."""

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .kernel import OclKernel
from .source import grid_of

# Tensors of a kernel: CPU executors call kernels of up to 64 parameters, two for each tensor, and sizes come on top.
MOST_TENSORS = 24


class OclScheduling(SIMDScheduling):
    kernel_type = OclKernel

    def can_fuse(self, node1: Any, node2: Any) -> bool:
        used = {dep.name for node in (node1, node2) for dep in node.read_writes.reads | node.read_writes.writes}
        return len(used) <= MOST_TENSORS and bool(super().can_fuse(node1, node2))

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        """Scans, sorts and searches are left to the library's kernels."""
        return OrderedSet([BackendFeature.INPLACE_BUFFERS])

    @classmethod
    def get_tiling_and_scores(
        cls, node_schedule: Any, numel: sympy.Expr, reduction_numel: sympy.Expr = sympy.S.One, *rest: Any, **more: Any
    ) -> Any:
        """One flat index over the results and one over what is reduced: lanes.py splits them again."""
        return cls.create_tiling([numel], [reduction_numel]), None

    @classmethod
    def select_tiling(
        cls, node_schedule: Any, numel: sympy.Expr, reduction_numel: sympy.Expr = sympy.S.One, *rest: Any, **more: Any
    ) -> Any:
        return cls.create_tiling([numel], [reduction_numel])

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Puts the kernel into the graph's program; equal kernels become one, sizes being arguments."""
        wrapper = V.graph.wrapper_code
        functions = next(iter(kernel.function_types), torch.float32)
        kinds = "".join(letter for letter, _, _ in kernel.parameters())
        options = {
            "grid": grid_of(kernel),
            "alignment": _alignment(kernel),
            "errors": kernel.errors,
            "functions": str(functions),
            "includes": list(kernel.includes),
            "atomics": list(kernel.atomics),
        }
        key = f"{src_code}{kinds}{options}"
        if key in wrapper.src_to_kernel:
            return str(wrapper.src_to_kernel[key])
        name = f"ocl_{_kind(kernel)}_{wrapper.next_kernel_suffix()}"
        wrapper.src_to_kernel[key] = name
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        arguments = ", ".join(f"{option}={value!r}" for option, value in options.items())
        source = src_code.replace("KERNEL_NAME", name)
        text = f"ocl_kernels.add({name!r}, {kinds!r}, {arguments}, source='''\n{source}''')"
        wrapper.define_kernel(name, text, f"{origins}\n{detailed}", gpu=False)
        return name


def _alignment(kernel: Any) -> int:
    """Tasks get multiples of this many results: whole vectors or strips, or rows that are shorter than a strip."""
    if kernel.plan.reduces_lanes:
        return 1
    if not kernel.columns:
        return int(kernel.width)
    strip, row = int(kernel.width * kernel.columns.strip), kernel.plan.row
    return min(strip, int(row)) if isinstance(row, (int, sympy.Integer)) else strip


def _kind(kernel: Any) -> str:
    return "reduction" if kernel.features.is_reduction() else "pointwise"
