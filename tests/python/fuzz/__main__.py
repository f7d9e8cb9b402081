"""Random programs on `ocl` and on the CPU; hypothesis shrinks those that differ.

    python -m tests.python.fuzz --cases 20000                    # spread over the families
    python -m tests.python.fuzz --families indexing --seed 7     # one family, other programs

Prints the smallest failing program of each kind (a kind that failed is passed over from then on) and ends with status 1
when there was one.
"""

import argparse
import os
import sys
import time

# The CPU's side gets one thread (main), kernels keep all.
os.environ.setdefault("TORCH_OCL_HOST_THREADS", str(len(os.sched_getaffinity(0))))

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

import torch_ocl  # noqa: F401  the device

from .check import check
from .families import FAMILIES

FAILURES = 12  # of a family, after which it is left


def search(family, cases, number, known):
    """(programs run, the smallest program that failed or None, the error); programs of the names in `known` are passed
    over."""
    counts, failed = {"run": 0}, []

    @seed(number)
    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=False, verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False,
    )  # fmt: skip
    @given(FAMILIES[family]())
    def run(program):
        counts["run"] += not failed  # shrinking is not counted
        if kind(program) in known:
            return
        try:
            check(program)
        except Exception:
            failed.append(program)  # the last one is the smallest
            raise

    try:
        run()
    except Exception as error:  # whatever a program ended with is its failure
        return counts["run"], failed[-1] if failed else None, error
    return counts["run"], None, None


def kind(program):
    return program.name.split("(")[0]


def fuzz(family, cases, number):
    """(programs run, texts of failures): one failure per kind of program."""
    count, failures, known = 0, [], set()
    while count < cases and len(failures) < FAILURES:
        run, program, error = search(family, cases - count, number + len(failures), known)
        count += run
        if error is None:
            break
        failures.append(f"{type(error).__name__}: {error}\n  {program}")
        known.add(kind(program) if program else None)
    return count, failures


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.python.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.ocl.set_fallback_policy("silent")  # check() looks at what ran on the CPU
    failed = False
    for family in options.families:
        start = time.monotonic()
        count, failures = fuzz(family, options.cases // len(options.families), options.seed)
        print(
            f"{family}: {count} programs in {time.monotonic() - start:.0f} s, {len(failures)} kinds failed", flush=True
        )
        print("\n".join(failures), flush=True)
        failed |= bool(failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
