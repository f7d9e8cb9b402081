"""What a profiler costs that is not running: the same work in one process before and after a profile.

    python -m benchmarks.profiler [--rounds 12]

The work is chains of in-place additions, where a launch costs the most beside what it does, and training steps of a
small network. Times of different processes differ by more than a launch's check costs, so each process is compared with
itself: the quickest times after a step under torch.profiler over the quickest before it. Processes that pass an
ordinary step instead show what time alone does to that ratio; both kinds take turns. What is told is the median ratio
of either kind and their quotient, the overhead.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

CHAIN, CHAINS, STEPS = 500, 60, 60


def quickest(work, times):
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def measure(profiled):
    import torch
    from torch.profiler import ProfilerActivity, profile

    import torch_ocl  # noqa: F401

    x = torch.zeros(1, device="ocl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 900, 10),
    ).to("ocl")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    images, classes = torch.randn(8, 3, 32, 32, device="ocl"), torch.arange(8, device="ocl")

    def chain():
        for _ in range(CHAIN):
            x.add_(1)
        torch.ocl.synchronize()

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
        torch.ocl.synchronize()

    def times():
        return {"addition": quickest(chain, CHAINS) / CHAIN, "step": quickest(step, STEPS)}

    for _ in range(10):
        chain(), step()
    before = times()
    if profiled:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]):
            chain(), step()
    else:
        chain(), step()
    after = times()
    return {work: {"seconds": before[work], "ratio": after[work] / before[work]} for work in before}


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profiler", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--child", choices=["plain", "profiled"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child == "profiled")))
        return
    found = {"plain": [], "profiled": []}
    for _ in range(options.rounds):
        for kind, results in found.items():
            answer = subprocess.run(
                [sys.executable, "-m", "benchmarks.profiler", "--child", kind],
                capture_output=True,
                text=True,
                check=True,
            )
            results.append(json.loads(answer.stdout.splitlines()[-1]))
    for work in ("addition", "step"):
        ratio = {
            kind: statistics.median(result[work]["ratio"] for result in results) for kind, results in found.items()
        }
        spread = statistics.pstdev(result[work]["ratio"] for result in found["plain"])
        seconds = statistics.median(result[work]["seconds"] for results in found.values() for result in results)
        print(
            f"{work}: {1e6 * seconds:.2f} us; after a profile {ratio['profiled']:.4f} of before, after an ordinary "
            f"step {ratio['plain']:.4f} "
            f"(deviation {spread:.4f}); overhead {ratio['profiled'] / ratio['plain']:.4f}"
        )


if __name__ == "__main__":
    main()
