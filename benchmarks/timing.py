"""Times functions against each other in one process, so that both see the same machine.

Two facts shape this. After a native CPU operator its OpenMP workers spin for some milliseconds and take a core from the
next candidate, and sleeping between candidates is worse: so every candidate first runs in its own steady state. And a
foreign process costs native convolutions four times as much as ours: so a round with foreign CPU use is dropped, and
when that happens too often the case is marked contended.
"""

import os
import resource
import statistics
import time
from dataclasses import dataclass, field

WARM_SECONDS = 0.015
SAMPLE_SECONDS = 0.030
FIRST_CALLS = (
    4  # of every function before all rounds: some programs are built once a sequence of operators has come back
)
# Of all cores, above which a round is dirty. Half a core taken by others doubles the time of kernels whose threads
# sleep in between, because the scheduler then puts two of them on one core; OpenMP's threads, which spin, suffer less.
FOREIGN_SHARE = 0.08


@dataclass
class Timing:
    """Seconds per call, one sample per round."""

    samples: list = field(default_factory=list)
    contended: bool = False

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def spread(self):
        """Half the distance between the quartiles, relative to the median."""
        if len(self.samples) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


def keep_heap():
    """From here on glibc's malloc keeps what is freed.

    Otherwise native operators fault in fresh pages for every result, or do not, depending on what was freed earlier in
    the process (its thresholds adapt): ratios then differ by a factor of two between runs. Returns whether it could."""
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(mmap_threshold, 2**31 - 1) and mallopt(trim_threshold, 2**31 - 1))


def _busy_seconds():
    """CPU seconds of the whole machine since it started (None where /proc does not tell)."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, *_ = (int(value) for value in file.readline().split()[1:])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class ForeignLoad:
    """Context manager; afterwards `share` is the part of the machine that other processes used."""

    def __enter__(self):
        self.start = time.perf_counter(), _busy_seconds(), _own_seconds()
        return self

    def __exit__(self, *exception):
        wall, busy, own = self.start
        now = _busy_seconds()
        elapsed = max(time.perf_counter() - wall, 1e-9)
        foreign = 0.0 if now is None else (now - busy) - (_own_seconds() - own)
        # the kernel counts in ticks of 10 ms: two of them are noise
        self.share = max(0.0, foreign - 0.02) / (elapsed * (os.cpu_count() or 1))


def _run_for(function, seconds):
    """Calls `function` for at least `seconds`; returns (calls, elapsed)."""
    calls, begin = 0, time.perf_counter()
    while True:
        function()
        calls += 1
        elapsed = time.perf_counter() - begin
        if elapsed >= seconds:
            return calls, elapsed


def one_round(functions):
    """{name: seconds per call}, every function warmed up in its own steady state first."""
    result = {}
    for name, function in functions.items():
        _run_for(function, WARM_SECONDS)
        calls, elapsed = _run_for(function, SAMPLE_SECONDS)
        result[name] = elapsed / calls
    return result


def interleaved(functions, rounds=7, patience=2.0):
    """{name: Timing}. `functions` do their work and wait for it.

    Dirty rounds are repeated until `patience` x `rounds` were tried.
    """
    for function in functions.values():
        for _ in range(FIRST_CALLS):
            function()
    clean, dirty = [], []
    for _ in range(int(rounds * patience)):
        with ForeignLoad() as load:
            sample = one_round(functions)
        (clean if load.share < FOREIGN_SHARE else dirty).append(sample)
        if len(clean) == rounds:
            break
    contended = len(clean) < (rounds + 1) // 2
    samples = clean + dirty if contended else clean
    return {name: Timing([sample[name] for sample in samples], contended) for name in functions}
