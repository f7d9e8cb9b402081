"""What the checks share: running a procedure on both devices, and recording how the outcomes compare."""

import zlib

import torch

from .compare import Mismatch, Raised, compare, outcome
from .place import Unsupported

DEVICE = "ocl"


class NotApplicable(Exception):
    pass


class Recorder:
    """Collects comparisons of one check: how many, the first failures, the operators that ran on the CPU."""

    def __init__(self):
        self.compared, self.failures, self.fallbacks, self.skipped = 0, [], {}, 0

    def compare(self, description, procedure, precise=None, random=None, may_refuse=False):
        """procedure(device) on both devices.

        may_refuse: outputs that overlap may be refused where the CPU writes them.
        """
        try:
            expected = outcome(lambda: procedure("cpu"))
            if isinstance(expected, Raised) and isinstance(expected.error, Unsupported):
                self.skipped += 1
                return None
            torch.ocl.reset_fallbacks()
            actual = on_device(procedure)
            for name, count in torch.ocl.fallbacks().items():
                self.fallbacks[name] = self.fallbacks.get(name, 0) + count
            self.compared += 1
            if may_refuse and isinstance(actual, Raised) and str(actual.error).startswith("unsupported operation: "):
                return expected
            compare(actual, expected, DEVICE, (lambda: precise("cpu")) if precise else None)
            return expected
        except Mismatch as mismatch:
            if random is not None and random():
                return None
            self.failures.append(f"{description}: {mismatch}")
            return None


def on_device(procedure):
    """The outcome of procedure(DEVICE), with the errors that kernels report when the device is synchronized."""

    def waited():
        result = procedure(DEVICE)
        torch.ocl.synchronize()
        return result

    result = outcome(waited)
    if isinstance(result, Raised):  # nothing of this call may reach the next one
        outcome(torch.ocl.synchronize)
    return result


def seed_of(text):
    return zlib.crc32(text.encode())


def is_random(run):
    """Whether run() gives other values under another seed on the CPU."""
    first = None
    for seed in range(12):
        torch.manual_seed(seed)
        result = outcome(run)
        if first is None:
            first = result
        try:
            compare(result, first, "cpu")
        except Mismatch:
            return True
    return False
