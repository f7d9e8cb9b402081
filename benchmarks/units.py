"""What planning for many compute units costs where they are not there: the same training step told different numbers.

    python -m benchmarks.units [--network resnet50] [--units 2 64] [--rounds 12]

Planners cut work for the units that a device reports. More units need more tasks, and more tasks pack, store and add
more. On a machine of few cores a step that is told to plan for many shows how much work that is; told its own number,
it shows the least. One process for each number, steps in turns; what is told is the median of the ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

WARM_UP = 3


def child(network: str) -> None:
    """Steps on request: a line on standard input, seconds on standard output."""
    import torch

    import torch_ocl  # noqa: F401

    from .models import NETWORKS

    torch.manual_seed(0)
    row = NETWORKS[network]
    model = row.build().to("ocl").train()
    batch = [tensor.to("ocl") for tensor in row.batch(row.batch_size, row.size, 0)]
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step() -> float:
        begin = time.perf_counter()
        optimizer.zero_grad()
        row.loss(model, *batch).backward()
        optimizer.step()
        torch.ocl.synchronize()
        return time.perf_counter() - begin

    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(step(), flush=True)


class Stepper:
    """A process that plans for `units` compute units. Errors: RuntimeError when it has ended."""

    def __init__(self, network: str, units: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.units", "--child", "--network", network],
            env=os.environ | {"TORCH_OCL_SIMULATE": f"compute_units={units}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def answer(self) -> str:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise RuntimeError(f"a process of the benchmark ended with status {self.process.wait()}")
        return line

    def seconds(self) -> float:
        """Of one step."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.answer())

    def end(self) -> None:
        self.process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--network", default="resnet50", help="a row of benchmarks/models")
    parser.add_argument(
        "--units", type=int, nargs="+", default=[2, 64], help="the first is what others are compared with"
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.network)
    steppers = [Stepper(options.network, units) for units in options.units]
    times: list[list[float]] = [[] for _ in steppers]
    for number in range(options.rounds):
        order = range(len(steppers)) if number % 2 else reversed(range(len(steppers)))
        for index in order:
            times[index].append(steppers[index].seconds())
    for stepper in steppers:
        stepper.end()
    for units, seconds in zip(options.units, times, strict=True):
        ratio = statistics.median(mine / base for mine, base in zip(seconds, times[0], strict=True))
        print(f"{units:4} units  {statistics.median(seconds) * 1e3:8.1f} ms  {ratio:.3f}")


if __name__ == "__main__":
    main()
