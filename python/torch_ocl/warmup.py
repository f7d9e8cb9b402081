"""`python -m torch_ocl warmup MODEL ...`: compiles the kernels of networks ahead of their first use, into the disk
cache.

A MODEL is the name of a torchvision classifier (resnet18, mobilenet_v2, ...) or FILE.py:FUNCTION, a function without
arguments that runs the work to warm up (a training step, an inference) on `ocl`. Each runs in a process of its own, as
many at a time as there are cores.
"""

import argparse
import concurrent.futures
import subprocess
import sys
import time
from typing import Any

import torch

from . import _core, ocl
from ._torchvision import import_torchvision

DEFAULT = ["alexnet", "resnet18", "resnet50", "mobilenet_v2", "vgg16"]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m torch_ocl warmup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL")
    parser.add_argument("--batch", type=int, default=2, help="images; another number compiles nothing new")
    parser.add_argument("--size", type=int, default=224, help="edge of the images")
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16", "float16"], default="float32", help="half types: under autocast"
    )
    parser.add_argument("--optimizer", default="SGD", help="name in torch.optim")
    parser.add_argument("--inference", action="store_true", help="no training step")
    parser.add_argument("--device", default="ocl")
    parser.add_argument(
        "--tune",
        action="store_true",
        help="also measure the algorithms for these shapes (one model at a time; batch and size matter)",
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_file(text: str) -> None:
    path, _, function = text.rpartition(":")
    scope: dict[str, Any] = {"__name__": "warmup", "__file__": path}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), scope)
    scope[function]()


def run_classifier(options: argparse.Namespace, name: str) -> None:
    model = import_torchvision().models.get_model(name, weights=None).to(options.device)
    images = torch.randn(options.batch, 3, options.size, options.size, device=options.device)
    classes = torch.zeros(options.batch, dtype=torch.long, device=options.device)
    with torch.autocast(
        options.device.split(":")[0], getattr(torch, options.dtype), enabled=options.dtype != "float32"
    ):
        with torch.no_grad():
            model.eval()(images)
        if options.inference:
            return
        optimizer = getattr(torch.optim, options.optimizer)(
            model.parameters(), lr=1e-3, **({"momentum": 0.9} if options.optimizer == "SGD" else {})
        )
        for _ in range(2):  # the second step of an optimizer with state uses other kernels
            optimizer.zero_grad()
            output = model.train()(images)
            output = output[0] if isinstance(output, tuple) else output
            torch.nn.functional.cross_entropy(output, classes).backward()
            optimizer.step()


def here(options: argparse.Namespace) -> int:
    """The work of one child; prints what was compiled."""
    (name,) = options.models
    begin = time.perf_counter()
    _core.core().set_tuning(options.tune)
    run_file(name) if ":" in name else run_classifier(options, name)
    ocl.synchronize()
    _core.core().write_postponed_programs(600)
    compiled, loaded = ocl.build_counts()
    print(f"{name}: {compiled} programs compiled, {loaded} were there ({time.perf_counter() - begin:.0f} s)")
    return 0


def main(arguments: list[str]) -> int:
    """Runs one process for every model; returns the exit status: 1 when one failed."""
    options = parse(arguments)
    if options.here:
        return here(options)
    flags = ["--here", "--batch", str(options.batch), "--size", str(options.size), "--dtype", options.dtype,
             "--optimizer", options.optimizer,
             "--device", options.device, *(["--inference"] if options.inference else []),
             *(["--tune"] if options.tune else [])]  # fmt: skip

    def child(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "torch_ocl", "warmup", name, *flags], capture_output=True, text=True
        )

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(1 if options.tune else _core.core().host()["usable"]) as pool:
        for name, answer in zip(options.models, pool.map(child, options.models)):
            failed += answer.returncode != 0
            print(
                answer.stdout.strip()
                if answer.returncode == 0
                else f"{name}: {(answer.stderr.strip().splitlines() or ['failed'])[-1]}",
                flush=True,
            )
    return int(failed > 0)
