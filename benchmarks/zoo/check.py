"""Runs a model on the CPU in float64 and float32 and on another device, and compares outputs, loss and gradients.

Rounding decides on which side of zero an activation falls, which of two equal boxes is kept, and so on; the gradients
behind such a decision then differ without anything being wrong. Decisions change with the weights, mistakes do not: a
failure counts only when it occurs with each of TRIES sets of random weights.
"""

import copy
import gc
import time
import traceback
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .model import Model, prepared

FACTOR = 4  # times the CPU's own float32 error
FLOOR = 1e-4  # relative L2 that is always allowed
# a gradient smaller than this share of the largest one is rounding of an exact zero: its error is measured against the
# share
ZERO = 1e-4
TRIES = 5


@dataclass
class Report:
    """What happened to a model. `failures` is empty when the device is as good as the CPU."""

    model: Model
    failures: list = field(default_factory=list)  # texts
    fallbacks: dict = field(default_factory=dict)  # operator -> number of calls
    worst: float = 0.0  # largest error divided by what is allowed
    seconds: float = 0.0  # training step and inference on the device, kernels compiled on the way included
    tries: int = 0  # sets of weights that were needed

    @property
    def passed(self):
        return not self.failures and not self.fallbacks


def moved(batch, device, dtype):
    """The batch on a device, floating-point tensors in `dtype`."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, dtype) if value.is_floating_point() else value.to(device)

    return tree_map(move, batch)


def tensors(value):
    """The tensors anywhere in an output, on the CPU."""
    leaves = tree_flatten(dict(value) if hasattr(value, "keys") else value)[0]
    return [leaf.detach().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def run(model, network, device, dtype):
    """{name: tensor on the CPU}: the outputs of inference, the loss, every gradient; then one AdamW step."""
    network = copy.deepcopy(network).to(device, dtype)
    batch = moved(model.batch(), device, dtype)
    results = {}
    if model.infer:
        torch.manual_seed(3)
        with torch.no_grad():
            results |= {
                f"inference {i}": tensor for i, tensor in enumerate(tensors(model.infer(network.eval(), *batch)))
            }
    network.train()
    torch.manual_seed(3)
    optimizer = torch.optim.AdamW([parameter for parameter in network.parameters() if parameter.requires_grad], 1e-3)
    loss = model.loss(network, *batch)
    assert loss.device.type == torch.device(device).type and loss.isfinite(), loss
    loss.backward()
    results["loss"] = loss.detach().cpu()
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            results[f"gradient of {name}"] = parameter.grad.detach().cpu()
    optimizer.step()
    for name, parameter in network.named_parameters():
        if not parameter.isfinite().all():
            raise AssertionError(f"{name} is not finite after the step")
    return results


def relative_error(value, truth, least=0.0):
    """L2 distance relative to the norm of `truth`, or to `least` where that is larger; not a number when shapes differ
    or a number is missing."""
    if value.shape != truth.shape:
        return float("nan")
    value, truth = value.double(), truth.double()
    scale = truth.norm().clamp(min=least)
    return ((value - truth).norm() / scale).item() if scale > 0 else value.norm().item()


def compare(ours, native, truth):
    """{name: error divided by what is allowed}; infinite for whole numbers that are not the CPU's, and for what exists
    on one device only."""
    ratios = {name: float("inf") for name in ours.keys() ^ native.keys()}
    least = ZERO * max(
        (value.double().norm().item() for name, value in native.items() if name.startswith("gradient")), default=0.0
    )
    for name in ours.keys() & native.keys():
        value, near = ours[name], native[name]
        if not value.is_floating_point():
            ratios[name] = 0.0 if torch.equal(value, near) else float("inf")
            continue
        exact = truth.get(name, near)
        if exact.shape != near.shape:  # float32 decided otherwise than float64 on the CPU already
            exact = near
        bound = least if name.startswith("gradient") else 0.0
        ratio = relative_error(value, exact, bound) / max(FACTOR * relative_error(near, exact, bound), FLOOR)
        ratios[name] = ratio if ratio == ratio else float("inf")
    return ratios


def attempt(model, device, seed, report):
    """The ratios of compare() for one set of weights; fallbacks and time go to the report."""
    torch.manual_seed(seed)
    network = prepared(model.build())
    native = run(model, network, "cpu", torch.float32)
    try:
        truth = run(model, network, "cpu", torch.float64)
    except (RuntimeError, TypeError):  # the model, or an operator of it, knows float32 only
        truth = native
    before = torch.ocl.fallbacks()
    start = time.perf_counter()
    try:
        ours = run(model, network, device, torch.float32)
    finally:
        report.seconds = time.perf_counter() - start
        for name, count in torch.ocl.fallbacks().items():
            if count != before.get(name, 0):
                report.fallbacks[name] = report.fallbacks.get(name, 0) + count - before.get(name, 0)
    return compare(ours, native, truth)


def check(model, device="ocl"):
    """A Report on `model`; never raises."""
    report = Report(model)
    best = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the CPU's part is small: its threads would only wait for each other
    try:
        while report.tries < TRIES:
            ratios = attempt(model, device, report.tries, report)
            report.tries += 1
            best = {
                name: min(ratios.get(name, float("inf")), best.get(name, float("inf")))
                for name in ratios.keys() | best.keys()
            }
            if all(ratio <= 1 for ratio in best.values()):
                break
        report.worst = max(best.values())
        report.failures = [
            f"{name}: {ratio:.2g} times what is allowed" for name, ratio in best.items() if not ratio <= 1
        ]
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines()
        report.failures.append(f"{type(error).__name__}: {text[0] if text else ''} ({place.name}:{place.lineno})")
    finally:
        torch.set_num_threads(threads)
        gc.collect()
    return report
