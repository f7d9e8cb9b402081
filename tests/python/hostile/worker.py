"""Evaluates calls. As a process it speaks the protocol of conformance/pool.py: a case is the text of a call.

HOSTILE_DEVICE names the device under test: "ocl", or "cpu" to see what PyTorch itself does.
"""

import contextlib
import json
import os
import sys
import time
import warnings

import torch
from torch.utils import _pytree

import torch_ocl  # noqa: F401  the device
from tests.python.registered.worker import limit_memory

from . import values

LARGEST = 1 << 22  # elements of a result that are still looked at


def use(tree):
    """What a program does with a result: computes with it, copies it, prints it, derives it."""
    for leaf in _pytree.tree_leaves(tree):
        if not isinstance(leaf, torch.Tensor) or leaf.numel() > LARGEST:
            continue
        for step in (lambda x: x.cpu(), str, lambda x: x.clone(), lambda x: x.sum().backward()):
            with contextlib.suppress(Exception):  # every one is fine
                step(leaf)


def evaluate(text):
    """ "done", or the exception that the call raised."""
    torch.manual_seed(0)
    try:
        result = eval(text, {**vars(values)})
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    use(result)
    return "done"


def main():
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    values.DEVICE = os.environ.get("HOSTILE_DEVICE", "ocl")
    torch.ocl.set_fallback_policy("silent")
    torch.ones(5, device=values.DEVICE).add(1).cpu()
    limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        start = time.monotonic()
        if "call" not in request["skip"]:
            print(json.dumps({"check": "call"}), file=events)
            said = evaluate(request["case"])
            try:
                torch.ocl.synchronize()
            except Exception as error:
                said = f"later: {error}"
            print(json.dumps({"check": "call", "status": "pass", "said": said}), file=events)
        print(json.dumps({"done": request["case"], "seconds": round(time.monotonic() - start, 2)}), file=events)


if __name__ == "__main__":
    main()
