"""The text of a kernel around its body, and of a program around its kernels."""

from collections.abc import Iterable
from typing import Any

import torch
from torch._inductor.codegen.common import IndentedBuffer

from . import dtypes

# How a kernel's work-items divide its work (csrc/torch/python/generated_kernel.cpp).
TASKS, ITEMS, GROUP_PER_ROW = 0, 1, 2
GROUP = 256


def grid_of(kernel: Any) -> int:
    if kernel.width > 1:
        return TASKS
    return GROUP_PER_ROW if kernel.plan.reduces_lanes else ITEMS


def kernel_text(kernel: Any, name: str) -> str:
    """The kernel function. Its parameters: the graph's, the error buffer and codes, rows, columns and a task's rows."""
    rows = kernel.parameters()
    declarations = [declaration for _, declaration, _ in rows]
    if kernel.errors:
        declarations.append("global int* error")
        declarations += [f"int error_code{i}" for i in range(len(kernel.errors))]
    declarations += ["long row_count", "long column_count"]
    if kernel.width > 1:
        declarations.append("long block")
    out = IndentedBuffer()
    out.writeline(f"{'CPU_KERNEL' if kernel.width > 1 else 'kernel'} void {name}({', '.join(declarations)}) {{")
    with out.indent():
        # Of the index's own type: Intel's compiler was seen to compare vectors of int with a long wrongly.
        kind = kernel.index_dtype
        out.writeline(f"const {kind} rows = ({kind})row_count, columns = ({kind})column_count;")
        for array, kind in kernel.local_arrays.items():
            out.writeline(f"__local {kind} {array}[{GROUP}];")
        _loops(out, kernel)
    out.writeline("}")
    return str(out.getvalue())


def _loops(out: IndentedBuffer, kernel: Any) -> None:
    tree = next(tree for tree in kernel.range_trees if not tree.is_reduction)
    index, kind = tree.name, kernel.index_dtype
    if kernel.width == 1:
        out.writeline(f"const {kind} {index} = get_{'group' if kernel.plan.reduces_lanes else 'global'}_id(0);")
        if not kernel.plan.reduces_lanes:
            out.writeline(f"if ({index} >= rows) return;")
        out.splice(kernel.indexing_code)
        out.splice(kernel.body)
        return
    out.writeline(
        f"const {kind} first = ({kind})(get_group_id(0) * block), last = MIN_OF(first + ({kind})block, rows);"
    )
    if not kernel.plan.reduces_lanes:
        kernel.write_lanes(out, tree, "first", "last", (kernel.body,))
        return
    out.writeline(f"for ({kind} {index} = first; {index} < last; ++{index}) {{")
    with out.indent():
        out.splice(kernel.indexing_code)
        out.splice(kernel.body)
    out.writeline("}")


def program_text(kernels: Iterable[str], width: int, functions: torch.dtype, includes: Iterable[str],
                 atomics: Iterable[str]) -> str:  # fmt: skip
    """A program. `functions`: the type of the library's elementwise functions in it."""
    name = dtypes.NAMES[functions]
    lines = [
        f"#define COMPUTE {name}",
        f"#define W {width}",
        '#include "common/divide.clh"',
        '#include "common/types.clh"',
        "#pragma OPENCL FP_CONTRACT OFF",
        f"#define T VALUE_V({name}, {width})",
        f"#define S VALUE({name})",
        '#include "common/vector_math.clh"',
        '#include "inductor/integers.clh"',
        *(f'#include "{file}"' for file in includes),
    ]
    atomics = list(atomics)
    if atomics:
        lines += [
            "#define COMBINE_IS_ADD 1",
            "#define COMBINE_VALUES(a, b) ((a) + (b))",
            '#include "common/atomic.clh"',
        ]
    for kind in atomics:
        lines += [f"#define atomic_update atomic_add_{kind}", f"DEFINE_ATOMIC_UPDATE({kind})", "#undef atomic_update"]
    return "\n".join([*lines, *kernels, ""])
