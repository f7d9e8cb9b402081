"""Which operators are called, and the strict list of those whose code for the CPU ends the process as well."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

FILE = Path(__file__).parent / "known.txt"
NAMESPACES = ("aten", "ocl", "quantized")
# Operators of PyTorch's own tests, of other devices, or made to change the process or to reach other ones.
LEFT_OUT = re.compile(
    r"aten::(_test_|from_file|_cu(da|fft|dnn)|cudnn_|miopen_|_?mps_|wait_tensor|_make_dep_token|_debug_has|_lazy"
    r"|_propagate_xla|.*vulkan|_batch_norm_impl_index_backward|_print|manual_seed|seed$|set_grad_enabled|_thnn_fused)"
)


@dataclass
class Known:
    pattern: re.Pattern[str]
    call: str
    reason: str


def all_names():
    """Names of the operators that are called, "aten::add.Tensor", sorted."""
    every = torch._C._dispatch_get_all_op_names()
    return sorted(n for n in every if n.split("::")[0] in NAMESPACES and not LEFT_OUT.match(n))


def known(text=None):
    """Rows of known.txt: names | a call that ends the process on the CPU | reason; indented lines go on with a row."""
    rows = []
    for line in (FILE.read_text() if text is None else text).replace("\n    ", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, call, reason = (part.strip() for part in line.split(" | ", 2))
            rows.append(Known(re.compile(pattern), call, reason))
    return rows


def operator_of(call):
    """ "aten::add" of "aten.add.Tensor(...)"."""
    namespace, name = call.split("(", 1)[0].split(".")[:2]
    return f"{namespace}::{name}"
