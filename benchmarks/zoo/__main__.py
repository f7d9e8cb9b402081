"""`python -m benchmarks.zoo [words]`: the models, and whether each trains and infers on the device as on the CPU,
without one fallback.

Words choose models whose id contains one of them. Ends with the operators that ran on the CPU, by the number of models
that need them.
"""

import argparse
import collections
import os
import sys
import warnings

# The CPU's side gets one thread (check.py), kernels keep all.
os.environ.setdefault("TORCH_OCL_HOST_THREADS", str(len(os.sched_getaffinity(0))))

import torch

import torch_ocl  # noqa: F401

from . import all_models, missing
from .check import check


def chosen(words):
    return [model for model in all_models().values() if not words or any(word in model.id for word in words)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--list", action="store_true", help="only the names")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--details", action="store_true", help="every failure of a model instead of the first")
    options = parser.parse_args()
    models = chosen(options.words)
    if options.list:
        print(*(model.id for model in models), sep="\n")
        return 0
    warnings.filterwarnings("ignore", message=".*runs on the CPU.*")
    needed = collections.defaultdict(list)
    passed = 0
    for model in models:
        report = check(model, options.device)
        passed += report.passed
        for name in report.fallbacks:
            needed[name].append(model.id)
        status = "ok" if report.passed else "FAIL" if report.failures else "fallback"
        print(
            f"{model.id:44} {status:8} error/allowed {report.worst:6.2g}, {report.tries} tries, {report.seconds:6.1f} "
            f"s  {' '.join(report.fallbacks)}",
            flush=True,
        )
        for failure in report.failures if options.details else report.failures[:1]:
            print(f"    {failure}  ({len(report.failures)} failures)", flush=True)
    if missing():
        print(f"\nnot installed, so not looked at: {' '.join(missing())}")
    print(f"\n{passed} of {len(models)} models as on the CPU, torch {torch.__version__}, {torch.ocl.get_device_name()}")
    for name, users in sorted(needed.items(), key=lambda item: -len(item[1])):
        print(f"  {len(users):3} {name:50} {' '.join(users[:4])}")
    return passed != len(models)


if __name__ == "__main__":
    sys.exit(main())
