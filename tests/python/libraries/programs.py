"""The list of programs, and how one is compared with the CPU."""

import importlib.metadata
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

EVERY: list["Program"] = []


@dataclass
class Program:
    """`run(device)` returns tensors; equal up to the rounding of sums of so many terms."""

    name: str
    what: str
    run: Callable[[str], list[torch.Tensor]]
    terms: int
    libraries: tuple[str, ...]

    @property
    def missing(self):
        return [name for name in self.libraries if version(name) is None]


@dataclass
class Report:
    failures: list[str]
    fallbacks: list[str]
    seconds: float


def version(library):
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def program(what, *libraries, terms=1000):
    """Adds the function below to the list."""

    def add(run):
        EVERY.append(Program(run.__name__, what, run, terms, libraries))
        return run

    return add


def difference(actual, expected, terms):
    """What is wrong with a result, or None. NaN equals NaN only."""
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype} {tuple(actual.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
    if not (expected.is_floating_point() or expected.is_complex()):
        return None if torch.equal(actual, expected) else "other whole numbers"
    wide = torch.complex128 if expected.is_complex() else torch.float64
    a, e = actual.to(wide), expected.to(wide)
    if not torch.equal(a.isnan(), e.isnan()):
        return "NaN in other places"
    allowed = 16 * torch.finfo(expected.dtype).eps * math.sqrt(terms) * e.abs().nan_to_num(0).max().item()
    worst = (a - e).abs().nan_to_num(0).max().item()
    return None if worst <= allowed else f"differs by {worst:.3g}, allowed {allowed:.3g}"


def results(one, device):
    torch.manual_seed(0)
    return [tensor.detach() for tensor in one.run(device)]


def check(one, device="ocl"):
    """Runs the program on both devices."""
    expected = results(one, "cpu")
    before, start = torch.ocl.fallbacks(), time.monotonic()
    actual = results(one, device)
    torch.ocl.synchronize()
    seconds = time.monotonic() - start
    fallbacks = sorted(name for name, count in torch.ocl.fallbacks().items() if count != before.get(name, 0))
    failures = [f"{len(actual)} results instead of {len(expected)}"] if len(actual) != len(expected) else []
    for i, (a, e) in enumerate(zip(actual, expected)):
        wrong = (
            f"is on {a.device}" if a.device.type != device else difference(a.cpu(), e, one.terms) if e.numel() else None
        )
        if wrong:
            failures.append(f"result {i}: {wrong}")
    return Report(failures, fallbacks, seconds)


def load():
    """Fills the list."""
    from . import installed, installed_science, installed_training, installed_vision, own, own_models  # noqa: F401

    return EVERY
