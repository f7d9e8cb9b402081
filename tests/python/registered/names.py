"""Which operators are swept, and the strict list of calls that are known to fail: known.txt."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

FILE = Path(__file__).parent / "known.txt"
NAMESPACES = ("aten",)
BAD = ("differs", "raises", "internal", "crash", "hang")
# Operators that change the process, wait for others, exist for one of PyTorch's own tests or for another device; and
# helpers whose code for the CPU does not check its arguments and damages the memory of the process.
LEFT_OUT = re.compile(
    r"aten::(_test_|_(add|remove)_batch_dim|from_file|_pin_memory|set_data|wait_tensor|_cu(da|fft|dnn)|cudnn_|miopen_"
    r"|_?mps_|_?mkl|lift_fresh|_nnpack|_thnn_fused|_use_cudnn|_neg_view|_reshape_alias|_validate_"
    r"|_cholesky_solve_helper|_cumm(ax|in)_helper|_foreach_copy|_nested_|_batch_norm_impl|_make_dep_token"
    r"|_fw_primal|_cast_|set_|as_strided|_propagate_xla|_assert_|_lazy|_efficientzero|_debug_)"
    r"|.*(vulkan|_out_of)|prims::(_inductor|_sink|_make_token|device_put|_.*sink)"
    r"|(_?quantized|sparse)::.*(prepack|unpack|_dynamic|qlinear|conv|linear|rnn|make_quantized|embedding|run)"
)


@dataclass
class Known:
    pattern: re.Pattern[str]
    statuses: tuple[str, ...]
    reason: str
    used: int = 0


def all_names():
    """Names of the registered operators that are swept, "aten::add.Tensor", sorted. The dispatcher also has names of
    kernels without an operator: a table's in-place form of one that has none, which nobody can call."""
    callable_names = {f"{s.name}.{s.overload_name}".removesuffix(".") for s in torch._C._jit_get_all_schemas()}
    every = callable_names.intersection(torch._C._dispatch_get_all_op_names())
    return sorted(n for n in every if n.split("::")[0] in NAMESPACES and not LEFT_OUT.match(n))


def composites():
    """Those without a kernel for this device, whose code in ATen the dispatcher runs on tensors of any device."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return [n for n in all_names() if not has(n, "PrivateUse1") and any(has(n, key) for key in keys)]


def known():
    rows = []
    for line in FILE.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, statuses, reason = (part.strip() for part in line.split(" | ", 2))
            rows.append(Known(re.compile(pattern), tuple(statuses.split()), reason))
    return rows


def failures(record, rows):
    """Texts of the calls that failed and that no row lists."""
    texts = []
    for check, result in record["checks"].items():
        if (not check.startswith("ocl") and check != "prepare") or result["status"] not in BAD:
            continue
        covering = [r for r in rows if r.pattern.fullmatch(record["case"]) and result["status"] in r.statuses]
        for row in covering:
            row.used += 1
        if not covering:
            texts.append(f"{record['case']} | {check} | {result['status']} | {result.get('failures', [''])[0]}")
    return texts


def stale(rows):
    """Rows that covered nothing, as texts."""
    return [f"nothing fails of: {row.pattern.pattern} | {' '.join(row.statuses)}" for row in rows if not row.used]
