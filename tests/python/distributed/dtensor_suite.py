"""Operators of PyTorch's database on DTensors of `ocl`: placements of every argument, against tensors of the CPU.

    python -m tests.python.distributed.dtensor_suite [--match REGEX] [--ranks 2] [--samples 4] [--list]

It is what PyTorch's own test of DTensor's operators does, with Partial placements and gradients as well. What DTensor
refuses on a mesh of CPUs (operators without a sharding rule, for example) it must refuse here by the same exception;
where its result is wrong there, it must be the same here. dtensor_gaps.txt lists what fails, with reasons. It is
strict: what it does not list must pass, and what it lists must fail.
"""

import argparse
import collections
import itertools
import re
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils import _pytree

GAPS = Path(__file__).with_name("dtensor_gaps.txt")
LEFT_OUT = ("_batch_norm_with_update",)  # DTensor searches for minutes for a rule of its gradient
PLACEMENTS = 10  # of each sample, spread evenly over all combinations
SECONDS = 40  # of each operator, then its further placements are left out: some of DTensor's rules search for long
TIMEOUT = 240  # seconds without an answer


def operators():
    """{name: OpInfo} of what takes float32."""
    from conformance import cases

    found = cases.operators().items()
    return {name: op for name, op in found if torch.float32 in op.supported_dtypes("cpu") and name not in LEFT_OUT}


def converter(mesh, arguments, placements=None):
    """PyTorch's, which yields the arguments as DTensors in all placements of the tensors, or in those given."""
    from torch.distributed.tensor import DTensor, Partial
    from torch.testing._internal.distributed._tensor.common_dtensor import DTensorConverter

    class Converter(DTensorConverter):
        def gen_sharding_choices_for_arg(self, arg):
            choices = list(super().gen_sharding_choices_for_arg(arg))
            return [*choices, Partial()] if arg.is_floating_point() and arg.dim() else choices

        def to_dist_tensor(self, t, mesh, placements):
            if not (t.dim() and placements[0].is_partial()):
                return super().to_dist_tensor(t, mesh, placements)
            part = t.detach() / mesh.size()  # exact: sizes are powers of two
            return DTensor.from_local(part, mesh, placements).requires_grad_(t.requires_grad)

    found = Converter(mesh, *arguments)
    if placements is not None:
        found.sharding_combs = iter([placements])
    return found


def combinations(mesh, arguments):
    """Up to PLACEMENTS of them; none for an operator without tensors."""
    every = list(itertools.islice(converter(mesh, arguments).sharding_combs, 4096))
    if every == [()]:
        return []
    return [every[i * len(every) // PLACEMENTS] for i in range(PLACEMENTS)] if len(every) > PLACEMENTS else every


def whole(leaf):
    return leaf.full_tensor() if hasattr(leaf, "full_tensor") else leaf


def gradients(result, tensors):
    """Of the tensors that want one, with unlike weights for the elements of the result; () where nothing has one."""
    results = [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    if not results or not wanted:
        return ()
    weights = [torch.arange(leaf.numel(), dtype=torch.float64).cos().reshape(leaf.shape).to(leaf) for leaf in results]
    found = torch.autograd.grad(results, wanted, weights, allow_unused=True)
    return tuple(gradient if gradient is None else whole(gradient) for gradient in found)


class Checks:
    """One operator on this rank. Ranks go the same way: what one of them finds wrong is wrong for all."""

    def __init__(self, name, size):
        self.op = operators()[name]
        self.meshes = {device: dist.init_device_mesh(device, (size,)) for device in ("ocl", "cpu")}
        self.counts, self.failures = collections.Counter(), []
        self.until = time.monotonic() + SECONDS

    def result(self, tree):
        """What the operator gives, as plain tensors, and the gradients."""
        from conformance.samples import call, tensors

        found = _pytree.tree_map(whole, call(self.op.op, tree))
        return found, gradients(found, tensors(tree))

    def distributed(self, device, tree, placements):
        from conformance.place import place_all

        x, args, kwargs = place_all(tree, device, requires_grad=True)
        (x, *args), kwargs = next(converter(self.meshes[device], ((x, *args), kwargs), placements))
        return self.result((x, tuple(args), kwargs))

    def check(self, tree, described):
        from conformance.compare import Mismatch, Raised, compare, outcome
        from conformance.place import place_all, widened
        from conformance.recorder import is_random

        def alone(device, tree=tree):
            return outcome(lambda: self.result(place_all(tree, device, requires_grad=True)))

        def difference(found, right, device):
            try:
                compare(found, right, device, lambda: alone("cpu", widened(tree)))
            except Mismatch as mismatch:
                return str(mismatch)
            return None

        plain = alone("cpu")
        if isinstance(plain, Raised):
            return
        random = is_random(lambda: self.result(place_all(tree, "cpu"))[0])
        for placements in combinations(self.meshes["cpu"], ((tree[0], *tree[1]), tree[2])):
            if agreed(time.monotonic() > self.until):
                return
            found = outcome(lambda: self.distributed("ocl", tree, placements))
            if random and not isinstance(found, Raised):
                self.counts["random"] += 1
                continue
            wrong = difference(found, plain, "ocl")
            if wrong and not isinstance(found, Raised):  # what is left of terms that cancel is the device's own noise
                own = _pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, alone("ocl"))
                wrong = difference(found, own, "ocl")
            if not agreed(wrong):
                self.counts["equal"] += 1
                continue
            on_cpus = outcome(lambda: self.distributed("cpu", tree, placements))
            other = difference(found, on_cpus, "ocl") if difference(on_cpus, plain, "cpu") else wrong or "on other rank"
            if agreed(other):
                self.failures.append(f"{described} {placements}: {other}")
            else:
                self.counts["refused" if isinstance(found, Raised) else "wrong on CPUs"] += 1


def agreed(truth):
    """Whether it is so on any rank."""
    flag = torch.tensor(int(bool(truth)))
    dist.all_reduce(flag)
    return bool(flag)


def run_operator(rank, size, name, samples):
    """(counts, failures)"""
    from conformance.samples import arguments, describe, samples_of

    checks = Checks(name, size)
    differentiable = checks.op.supports_autograd
    for sample in samples_of(checks.op, torch.float32, samples, requires_grad=differentiable):
        checks.check(arguments(sample, checks.op), describe(sample))
    torch.ocl.reset_fallbacks()  # the conformance suite knows what runs on the CPU
    return dict(checks.counts), checks.failures


def gaps():
    """{name: reason}"""
    rows = (line.split(None, 1) for line in GAPS.read_text().splitlines() if line and not line.startswith("#"))
    return dict(rows)


class Suite:
    def __init__(self, ranks):
        from .ranks import Ranks

        self.ranks = Ranks(ranks, environment={"TORCH_OCL_FALLBACK": "silent"})

    def run(self, name, samples):
        """(counts, failures of any rank)"""
        try:
            found = self.ranks(run_operator, name, samples, seconds=TIMEOUT)
        except (AssertionError, TimeoutError, RuntimeError) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return {}, lines[-1:]
        return found[0][0], [f"rank {rank}: {text}" for rank, (_, failures) in enumerate(found) for text in failures]

    def close(self):
        self.ranks.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="regular expression of names")
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 4))
    parser.add_argument("--samples", type=int, default=4, help="of each operator")
    parser.add_argument("--list", action="store_true", help="prints names, runs nothing")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    names = sorted(name for name in operators() if re.search(options.match, name))
    if options.list:
        print(*names, sep="\n")
        return 0
    suite, known, wrong, totals = Suite(options.ranks), gaps(), [], collections.Counter()
    for name in names:
        counts, failures = suite.run(name, options.samples)
        totals.update(counts | {"operators that fail" if failures else "operators": 1})
        surprise = bool(failures) != (name in known)
        if surprise:
            wrong.append(name)
        print(name, counts, *failures[:4], "UNEXPECTED" if surprise else "", flush=True)
    suite.close()
    print(dict(totals), f"{len(wrong)} not as {GAPS.name} has it:", *wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
