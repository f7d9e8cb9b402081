"""Random programs on `ocl` and on the CPU, until one differs; hypothesis then shrinks it.

    python -m tests.python.fuzz --cases 20000                    # spread over the families
    python -m tests.python.fuzz --families indexing --seed 7     # one family, other programs

Prints the smallest failing program of each family and ends with status 1 when there was one.
"""

import argparse
import sys
import time

import torch
import torch_ocl  # noqa: F401 - the device
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from .check import check
from .programs import FAMILIES


def fuzz(family, cases, number):
    """(programs run, text of the failure or None)"""
    counts, failed = {"run": 0}, []

    @seed(number)
    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=False, verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(FAMILIES[family]())
    def run(program):
        counts["run"] += 1
        try:
            check(program)
        except BaseException:
            failed.append(program)  # the last one is the smallest
            raise

    try:
        run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return counts["run"], f"{type(error).__name__}: {error}\n{failed[-1] if failed else ''}"
    return counts["run"], None


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.python.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.ocl.set_fallback_policy("silent")
    failed = False
    for family in options.families:
        start = time.monotonic()
        count, failure = fuzz(family, options.cases // len(options.families), options.seed)
        print(f"{family}: {count} programs in {time.monotonic() - start:.0f} s" + (f", FAILED\n{failure}" if failure else ", all as on the CPU"), flush=True)
        failed |= failure is not None
    sys.exit(failed)


if __name__ == "__main__":
    main()
