"""Runs cases. As a process: reads {"case": ..., "skip": [...]} lines from stdin, writes events as JSON lines to the
original stdout.

Events: {"check": name} before a check, then {"check": name, "status": ..., ...}; {"done": case, "seconds": ...} after a
case.
"""

import json
import os
import sys
import time
import traceback
import warnings

import torch

import torch_ocl  # noqa: F401  the device

from . import cases, module_checks, operator_checks
from .recorder import NotApplicable, Recorder


def checks_of(case):
    """({name: function}, row of the database)"""
    if case.source == "op_db":
        return operator_checks.CHECKS, cases.operators()[case.name]
    if case.source == "module_db":
        return {"step": module_checks.module_step}, cases.modules()[case.name]
    return {"steps": module_checks.optimizer_steps}, cases.optimizers()[case.name]


def run_check(case, name):
    """{"status": "pass" | "fail" | "none", ...}: none means that the check does not apply or had nothing to compare."""
    functions, row = checks_of(case)
    record = Recorder()
    try:
        functions[name](row, case.dtype, record)
    except NotApplicable:
        return {"status": "none"}
    except Exception as error:  # a failure of the check itself is a failure
        at = traceback.extract_tb(error.__traceback__)[-1]
        record.failures.append(f"check failed: {type(error).__name__}: {error} at {at.filename}:{at.lineno}"[:400])
    status = "fail" if record.failures else "pass" if record.compared else "none"
    result = {"status": status, "compared": record.compared}
    if record.failures:
        result |= {"failed": len(record.failures), "failures": [text[:400] for text in record.failures[:4]]}
    if record.fallbacks:
        result["fallbacks"] = record.fallbacks
    return result


def main():
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.ocl.set_fallback_policy("silent")
    for line in sys.stdin:
        request = json.loads(line)
        case = cases.parse(request["case"])
        start = time.monotonic()
        for name in checks_of(case)[0]:
            if name in request["skip"] or (request["only"] and name not in request["only"]):
                continue
            print(json.dumps({"check": name}), file=events)
            begin = time.monotonic()
            result = run_check(case, name)
            print(json.dumps({"check": name, "seconds": round(time.monotonic() - begin, 2), **result}), file=events)
        print(json.dumps({"done": request["case"], "seconds": round(time.monotonic() - start, 2)}), file=events)


if __name__ == "__main__":
    main()
