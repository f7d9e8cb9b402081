"""Several processes on one machine: collectives beside Gloo on CPU tensors, DDP beside one process and native DDP.

    python -m benchmarks.distributed [--rounds 7] [--only all_reduce ddp] [--output FILE]

all_reduce: two ranks of one thread each, tensors of 1, 25 and 100 MB; in each round the device, then the CPU.
ddp: training steps of ResNet-18, in turns of one process with two threads on the joined batch, two ranks with a thread
each, and two ranks of native DDP on the CPU. All processes live from the beginning; while one kind measures, the others
sleep. A row has the median of its rounds, its ratio to what it is compared with, and the mark: the most that the ratio
should be. Ratios of a machine that does other things besides are hints.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

MEGABYTES = {1: 1.3, 25: 1.15, 100: 1.15}  # and the mark: device / CPU
TO_ONE_PROCESS, TO_NATIVE_DDP = 1.15, 1 / 1.5  # marks of a step of DDP
IMAGES, PIXELS = 16, 64  # of all ranks in a step
KINDS = {"one process": (1, 2, "ocl"), "ddp": (2, 1, "ocl"), "native ddp": (2, 1, "cpu")}  # ranks, threads, device


def seconds(work, least):
    """Seconds per call, of calls that together take at least `least` seconds: the same number on every rank."""
    import torch.distributed as dist

    begin = time.perf_counter()
    work()
    calls = torch.tensor(max(1, int(least / (time.perf_counter() - begin))))
    if dist.is_initialized():
        dist.all_reduce(calls, dist.ReduceOp.MAX)
        dist.barrier()
    begin = time.perf_counter()
    for _ in range(int(calls)):
        work()
    return (time.perf_counter() - begin) / int(calls)


def make_all_reduce(megabytes, device):
    import torch.distributed as dist

    x = torch.ones(megabytes << 18, device=device)

    def work():
        dist.all_reduce(x)
        if device == "ocl":
            torch.ocl.synchronize()

    return work


def make_step(device, ranks):
    from torchvision.models import resnet18

    torch.manual_seed(0)
    model = resnet18().to(device)
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    images = torch.rand(IMAGES // ranks, 3, PIXELS, PIXELS, device=device)
    labels = torch.arange(IMAGES // ranks).to(device)

    def work():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if device == "ocl":
            torch.ocl.synchronize()

    return work


def serve(rank, ranks, threads, folder, pipe):
    """A process of the group `folder`: measures what comes through the pipe, (maker, arguments, seconds)."""
    os.environ |= {"TORCH_OCL_HOST_THREADS": str(threads), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)}
    import torch.distributed as dist

    import torch_ocl  # noqa: F401  registers `ocl`

    torch.set_num_threads(threads)
    if ranks > 1:
        dist.init_process_group(store=dist.FileStore(os.path.join(folder, "store"), ranks), rank=rank, world_size=ranks)
    works = {}
    while (job := pipe.recv()) is not None:
        maker, arguments, least = job
        if job[:2] not in works:
            works[job[:2]] = maker(*arguments)
            for _ in range(4):
                works[job[:2]]()
        pipe.send(seconds(works[job[:2]], least))
    if torch.ocl.fallbacks():
        print(f"operators that ran on the CPU: {torch.ocl.fallbacks()}", file=sys.stderr)
    if ranks > 1:
        dist.destroy_process_group()


class Processes:
    """measure(maker, *arguments): the seconds of the slowest of `ranks` processes."""

    def __init__(self, ranks, threads):
        context = torch.multiprocessing.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        self.pipes, self.processes = [], []
        for rank in range(ranks):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(rank, ranks, threads, self.folder.name, there), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def measure(self, maker, *arguments, least=0.3):
        for pipe in self.pipes:
            pipe.send((maker, arguments, least))
        return max(pipe.recv() for pipe in self.pipes)

    def close(self):
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()
        self.folder.cleanup()


def row(name, times, against, reference, mark):
    """What a line says, and a file has: medians of the rounds, and their ratio."""
    mine, other = statistics.median(times), statistics.median(reference)
    facts = {"seconds": mine, "against": against, "reference": other, "ratio": mine / other, "mark": mark}
    print(
        f"{name:24} {1e3 * mine:8.2f} ms   {against:12} {1e3 * other:8.2f} ms   "
        f"ratio {mine / other:.2f}, at most {mark:.2f}: {'yes' if mine / other <= mark else 'NO'}",
        flush=True,
    )
    return {name + " / " + against: facts}


def all_reduce(rounds):
    ranks, rows = Processes(2, 1), {}
    for megabytes, mark in MEGABYTES.items():
        times = {"ocl": [], "cpu": []}
        for _ in range(rounds):
            for device, found in times.items():
                found.append(ranks.measure(make_all_reduce, megabytes, device))
        rows |= row(f"all_reduce {megabytes} MB", times["ocl"], "cpu", times["cpu"], mark)
    ranks.close()
    return rows


def ddp(rounds):
    kinds = {name: Processes(ranks, threads) for name, (ranks, threads, _) in KINDS.items()}
    times = {name: [] for name in KINDS}
    for _ in range(rounds):
        for name, (ranks, _, device) in KINDS.items():
            times[name].append(kinds[name].measure(make_step, device, ranks, least=1.0))
    for processes in kinds.values():
        processes.close()
    step = "ResNet-18 step, ddp"
    return row(step, times["ddp"], "one process", times["one process"], TO_ONE_PROCESS) | row(
        step, times["ddp"], "native ddp", times["native ddp"], TO_NATIVE_DDP
    )


PARTS = {function.__name__: function for function in (all_reduce, ddp)}


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--output", type=Path, help="a file for the rows, as JSON")
    options = parser.parse_args()
    rows = {}
    for name in options.only:
        rows |= PARTS[name](options.rounds)
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
