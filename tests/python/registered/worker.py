"""Calls operators on the CPU and on `ocl`. As a process it speaks the protocol of conformance/pool.py: an operator is a
case, a call on one side is a check, "cpu 3" or "ocl 3". So it is known which side ended the process.

A check of `ocl` has one of these statuses. Only the first four are failures.

    differs   values, dtypes, shapes, layouts, or what the call left in its arguments
    raises    the CPU has a result
    internal  the error is PyTorch's report of a bug in itself, and the CPU's is not
    (crash, hang: from the pool)
    pass      equal results, or both refuse
    more      the CPU refuses
"""

import json
import os
import resource
import sys
import time
import warnings

import torch
from torch.utils import _pytree

import torch_ocl  # noqa: F401  the device
from tests.python.conformance.compare import Mismatch, Raised, compare, outcome

from . import inputs

ATTEMPTS, WANTED = 12, 2  # stops after so many calls that both sides accept
MEMORY = 6 << 30  # a call that asks for more gets an error of the allocator
# Results that are no function of the arguments.
ARBITRARY = ("empty", "new_empty", "resize", "rand", "seed", "set_.source_Storage", "_fused_sdp_choice", "lift_fresh",
             "record_stream", "_debug_has_internal_overlap", "_backend", "data_ptr", "pinned", "_version")  # fmt: skip


def operator(name):
    """The overload object of "aten::add.Tensor"."""
    namespace, rest = name.split("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def is_arbitrary(op):
    tags = {torch.Tag.nondeterministic_seeded, torch.Tag.nondeterministic_bitwise}
    return bool(tags & set(op.tags)) or any(text in op._schema.name.split("::")[1] for text in ARBITRARY)


def on(device, tree):
    """The arguments there: copies, laid out as they are."""

    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        moved = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=device)
        if any(s == 0 and n > 1 for s, n in zip(leaf.stride(), leaf.shape)):
            return leaf[:1].clone().to(device).expand(leaf.shape)
        return moved.copy_(leaf)

    return _pytree.tree_map(move, tree)


def call(op, drawn, device, derive, odd_one=None):
    """The result, the arguments afterwards, and gradients where `derive` says so."""
    positional, keywords = on(device, drawn)
    if odd_one is not None:  # one tensor stays on the CPU
        leaves, spec = _pytree.tree_flatten((positional, keywords))
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if tensors:
            leaves[tensors[odd_one % len(tensors)]] = leaves[tensors[odd_one % len(tensors)]].cpu()
        positional, keywords = _pytree.tree_unflatten(leaves, spec)
    if inputs.takes_device(op._schema):
        keywords = {**keywords, "device": torch.device(device)} if "device" in keywords else keywords
    wanted = [t for t in _pytree.tree_leaves(positional) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    if derive:
        for tensor in wanted:
            tensor.requires_grad_()
    result = op(*positional, **keywords)
    gradients = None
    if derive:
        sums = [t.double().sum() for t in _pytree.tree_leaves(result)
                if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]  # fmt: skip
        if sums:
            gradients = torch.autograd.grad(sum(sums), wanted, allow_unused=True)
    if device != "cpu":
        torch.ocl.synchronize()
    return result, positional, gradients


def judge(actual, expected, arbitrary):
    """(status, text)"""
    if isinstance(actual, Raised):
        text = str(actual.error)
        internal = "INTERNAL ASSERT" in text or "please report a bug" in text
        if internal and not (isinstance(expected, Raised) and "INTERNAL ASSERT" in str(expected.error)):
            return "internal", text[:300]
        return ("pass", "") if isinstance(expected, Raised) else ("raises", str(actual))
    if isinstance(expected, Raised):
        return "more", ""
    try:
        if arbitrary:
            for a, e in zip(_pytree.tree_leaves(actual[0]), _pytree.tree_leaves(expected[0])):
                if isinstance(a, torch.Tensor) and (a.shape, a.dtype, a.layout) != (e.shape, e.dtype, e.layout):
                    raise Mismatch(f"{a.dtype} {tuple(a.shape)}, the CPU's {e.dtype} {tuple(e.shape)}")
        else:
            compare(actual, expected)
    except Mismatch as mismatch:
        return "differs", str(mismatch)
    return "pass", ""


def run(name, skip, emit):
    """Emits the events of every call of the operator `name`."""
    op = operator(name)
    arbitrary, accepted, attempt = is_arbitrary(op), 0, -1
    while accepted < WANTED and attempt + 1 < ATTEMPTS:
        attempt += 1
        try:
            drawn = inputs.draw(op._schema, attempt)
        except inputs.Skipped:
            return
        derive, mixed = attempt % 6 == 5, attempt % 8 == 6
        here, there = f"cpu {attempt}", f"ocl {attempt}"
        if here in skip and there not in skip:  # the CPU did not survive this call
            continue
        if here not in skip:
            emit({"check": here})
        expected = outcome(lambda: call(op, drawn, "cpu", derive))
        if here not in skip:
            emit({"check": here, "status": "pass" if not isinstance(expected, Raised) else "none"})
        if there in skip:
            accepted += not isinstance(expected, Raised)
            continue
        emit({"check": there})
        actual = outcome(lambda: call(op, drawn, "ocl", derive, attempt if mixed else None))
        judged = outcome(lambda: judge(actual, expected, arbitrary))
        status, text = ("differs", str(judged)) if isinstance(judged, Raised) else judged
        if mixed and status in ("raises", "differs"):
            status = "pass"  # whether one tensor may lie elsewhere is not asked here
        accepted += not isinstance(expected, Raised) and not mixed
        emit({"check": there, "status": status, **({"failures": [text[:400]]} if text else {})})


def limit_memory():
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def main():
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.ocl.set_fallback_policy("silent")
    torch.ones(5, device="ocl").add(1).cpu()
    limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        start = time.monotonic()
        torch.manual_seed(0)
        run(request["case"], request["skip"], lambda event: print(json.dumps(event), file=events))
        print(json.dumps({"done": request["case"], "seconds": round(time.monotonic() - start, 2)}), file=events)


if __name__ == "__main__":
    main()
