"""What a profiler costs that is not running: fresh processes that have never profiled against ones that have profiled a step before.

    python -m benchmarks.profiler [--rounds 8]

Each process gives the quickest of many chains of in-place additions, where a launch costs the most beside its work, and of training steps of a
small network; processes of both kinds take turns, and the medians of their quickest times are compared.
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
    import torch_ocl  # noqa: F401
    from torch.profiler import ProfilerActivity, profile

    x = torch.zeros(1, device="ocl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 900, 10)).to("ocl")
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

    for _ in range(3):
        chain(), step()
    if profiled:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]):
            chain(), step()
    return {"addition": quickest(chain, CHAINS) / CHAIN, "step": quickest(step, STEPS)}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiler", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--child", choices=["never", "before"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child == "before")))
        return
    found = {"never": [], "before": []}
    for _ in range(options.rounds):
        for kind, results in found.items():
            answer = subprocess.run([sys.executable, "-m", "benchmarks.profiler", "--child", kind], capture_output=True, text=True, check=True)
            results.append(json.loads(answer.stdout.splitlines()[-1]))
    for work in ("addition", "step"):
        never, before = (statistics.median(result[work] for result in found[kind]) for kind in ("never", "before"))
        print(f"{work}: {1e6 * never:.2f} us without a profiler before, ratio after one {before / never:.4f}")


if __name__ == "__main__":
    main()
