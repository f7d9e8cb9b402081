"""PyTorch's own tests of collectives and DDP, which its wheel has, with `ocl` where they say CUDA.

    python -m tests.python.distributed.pytorch_suite [--match REGEX] [--ranks 2] [--list]

They run in ranks that stay for all of them. pytorch_gaps.txt lists what fails, with reasons. It is strict: what it does
not list must pass or skip itself, and what it lists must fail. Operators that run on the CPU are failures.
"""

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest
from pathlib import Path

GAPS = Path(__file__).with_name("pytorch_gaps.txt")
MODULE = "torch.testing._internal.distributed.distributed_test"
# What a test says of CUDA, and what it is to say. Ranks share a device, so none has an index.
WORDS = [
    (r"\.cuda\((torch\.cuda\.current_device\(\)|[\w.\[\]]*)\)", '.to("ocl")'),
    (r"\btorch\.cuda\.", "torch.ocl."),
    (r'f"cuda:\{[^}]*\}"|"cuda:" \+ str\(\w+\)|"cuda(:\d)?"', '"ocl"'),
    (r"(device=|torch\.device\(|\.to\()(self\.)?rank\b", r'\1"ocl"'),
    (r'backend="nccl"', 'backend="gloo"'),
]


def translated(source):
    for pattern, replacement in WORDS:
        source = re.sub(pattern, replacement, source)
    return source


def load():
    """The module with other words. Needs BACKEND, WORLD_SIZE and TEMP_DIR in the environment, as PyTorch's has it."""
    import torch
    from torch.testing._internal import common_distributed

    import torch_ocl  # noqa: F401  loads the device

    common_distributed.skip_if_no_gpu = lambda function: function
    common_distributed.skip_if_lt_x_gpu = lambda count, **options: lambda function: function
    common_distributed.init_multigpu_helper = lambda size, backend: {rank: [0] for rank in range(size)}
    common_distributed.DistTestCases.backend_feature["ocl"] = {"gloo"}
    spec = importlib.util.find_spec(MODULE)
    source = Path(spec.origin).read_text()
    module = types.ModuleType("pytorch_suite_translated")
    sys.modules[module.__name__] = module  # its named tuples look there
    exec(compile(translated(source), spec.origin, "exec"), vars(module))
    assert torch.ocl.is_available()

    class Suite(module.TestDistBackend, module.DistributedTest._DistTestBase):
        pass

    return module, Suite


def names_of_tests():
    """Those that say something of CUDA: the others are about the CPU alone."""
    import torch.testing._internal.distributed as package

    source = (Path(package.__file__).parent / "distributed_test.py").read_text()
    found = {}
    method = r"(?ms)^        def (test_\w+)\(self.*?\):\n(.*?)(?=^        (?:def|@)|^    \w|\Z)"
    for name, text in re.findall(method, source):
        found[name] = text
    return sorted(name for name, text in found.items() if "cuda" in text.lower() or "gpu" in text.lower())


_loaded = {}


def run_test(rank, size, name):
    """ "passed", or "skipped: " and why. Errors: what the test raises."""
    if not _loaded:
        os.environ["LOCAL_RANK"] = str(rank)
        _loaded["module"], _loaded["suite"] = load()
    module, suite = _loaded["module"], _loaded["suite"]
    if not hasattr(suite, name):
        return "skipped: wants another number of ranks"
    why = getattr(getattr(suite, name), "__unittest_skip_why__", "")
    if why and not why.lower().startswith("only nccl supports cuda"):  # that is true of Gloo, and not of `ocl`
        return f"skipped: {why}"
    dist = sys.modules["torch.distributed"]
    dist.barrier()
    if rank == 0:
        module.Barrier.init()  # removes what earlier tests have left
    module.Barrier.barrier_id = 0
    dist.barrier()
    test = suite(name)
    test.rank = rank
    test.file_name = os.path.join(os.environ["TEMP_DIR"], "store")
    try:
        getattr(test, name)()
    except unittest.SkipTest as skip:
        return f"skipped: {skip}"
    except SystemExit as end:
        reasons = {value.exit_code: value.message for value in module.TEST_SKIPS.values()}
        if end.code in reasons:
            return f"skipped: {reasons[end.code]}"
        raise
    return "passed"


def gaps():
    """{name: reason}"""
    rows = (line.split(None, 1) for line in GAPS.read_text().splitlines() if line and not line.startswith("#"))
    return dict(rows)


class Suite:
    """run(name) -> (whether it passed, what it said)"""

    def __init__(self, ranks):
        from .ranks import Ranks

        self.folder = tempfile.TemporaryDirectory()
        for part in ("barrier", "test_dir", "init_dir"):
            (Path(self.folder.name) / part).mkdir()
        self.ranks = Ranks(
            ranks,
            "gloo",
            {"BACKEND": "gloo", "WORLD_SIZE": str(ranks), "TEMP_DIR": self.folder.name, "TORCH_OCL_FALLBACK": "silent"},
        )

    def run(self, name, seconds=120):
        try:
            return True, self.ranks(run_test, name, seconds=seconds)[0]
        except (AssertionError, TimeoutError, RuntimeError) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            said = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
            return False, (said or lines)[-1]

    def close(self):
        self.ranks.kill()
        self.folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="regular expression of names")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="prints names, runs nothing")
    options = parser.parse_args()
    names = [name for name in names_of_tests() if re.search(options.match, name)]
    if options.list:
        print(*names, sep="\n")
        return 0
    known, wrong, counts = gaps(), [], {}
    suite = Suite(options.ranks)
    for name in names:
        passed, said = suite.run(name)
        kind = ("skipped" if said.startswith("skipped") else "passed") if passed else "failed"
        counts[kind] = counts.get(kind, 0) + 1
        surprise = passed == (name in known)
        if surprise:
            wrong.append(name)
        print(f"{name}: {kind} {'' if said == 'passed' else said[:200]}{' UNEXPECTED' if surprise else ''}", flush=True)
    suite.close()
    print(counts, f"{len(wrong)} not as {GAPS.name} has it:", *wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
