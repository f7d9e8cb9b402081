"""Kills a rank at random moments of its steps; every other rank must get an exception within the timeout and then end
by it.

    python -m tests.python.distributed.deaths --moments 20 [--seed 0] [--ranks 2 3] [--kinds data_parallel collectives]
"""

import argparse
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).with_name("dying.py")
PACKAGE = Path(__file__).resolve().parents[3] / "python"
KINDS = ("data_parallel", "collectives")
# Seconds. With three ranks Gloo may tell the one that waits for none of the dead only after the timeout.
START, TIMEOUT, LATE, END = 180, 30, 5, 90


@dataclass
class Rank:
    process: subprocess.Popen
    said: queue.Queue = field(default_factory=queue.Queue)
    errors: list = field(default_factory=list)

    def __post_init__(self):
        self.readers = [
            threading.Thread(target=lambda: [self.said.put(line) for line in self.process.stdout], daemon=True),
            threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def says(self, word, seconds):
        """The rest of the line that begins with `word`; AssertionError when it does not come."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                line = self.said.get(timeout=min(left, 1))
            except queue.Empty:
                if self.process.poll() is None:
                    continue
                break
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"no '{word}': status {self.process.poll()}\n{self.text()}")

    def text(self):
        return "".join(self.errors)

    def end(self, seconds):
        """The exit status; AssertionError when the process stays."""
        self.process.stdin.close()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process did not end\n{self.text()}") from None
        for reader in self.readers:
            reader.join(10)
        return status


@dataclass
class Death:
    """Which rank of how many dies how many steps after all have begun, and how the others end."""

    kind: str
    ranks: int
    victim: int
    steps: float
    destroy: bool
    # Like torchrun, which outlives its ranks; otherwise rank 0 has the store, and it may be the one that dies.
    store_outside: bool

    @classmethod
    def draw(cls, seed, kind, ranks):
        draw = random.Random(f"{seed} {kind} {ranks}")
        return cls(kind, ranks, draw.randrange(ranks), draw.uniform(0, 3), draw.random() < 0.5, draw.random() < 0.5)


def start(death, file):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "WORLD_SIZE": str(death.ranks),
        "LOCAL_WORLD_SIZE": str(death.ranks),
        "TORCH_OCL_HOST_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TEST_DESTROY": "1" if death.destroy else "",
    }
    for rank in range(death.ranks):
        yield Rank(
            subprocess.Popen(
                [sys.executable, str(SCRIPT), death.kind, str(TIMEOUT), str(file)],
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )


def happen(death):
    """Lets it happen: [(seconds from the death to the exception, its text)] of the other ranks.

    AssertionError: a rank got none in time, or did not end by it.
    """
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "port"
        if death.store_outside:
            store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            file.write_text(str(store.port))
        ranks = list(start(death, file))
        try:
            return ends(death, ranks)
        finally:
            for rank in ranks:
                rank.process.kill()
                rank.process.wait()


def ends(death, ranks):
    step = max(float(rank.says("step", START)) for rank in ranks)
    time.sleep(death.steps * step)
    ranks[death.victim].process.kill()
    killed = time.monotonic()
    found = []
    others = [rank for index, rank in enumerate(ranks) if index != death.victim]
    for rank in others:
        text = rank.says("error", killed + TIMEOUT + LATE - time.monotonic())
        found.append((time.monotonic() - killed, text))
    for rank in others:
        status = rank.end(END)
        assert status == 1 and "Traceback" in rank.text(), f"status {status}\n{rank.text()}"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, help="of each kind and number of ranks")
    parser.add_argument("--seed", type=int, default=0, help="of the first moment")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    failed, longest = 0, 0.0
    for seed in range(options.seed, options.seed + options.moments):
        for kind in options.kinds:
            for ranks in options.ranks:
                death = Death.draw(seed, kind, ranks)
                try:
                    found = happen(death)
                    longest = max(longest, *(seconds for seconds, _ in found))
                    said = ", ".join(f"{seconds:.2f} s {text[:90]}" for seconds, text in found)
                except AssertionError as error:
                    failed += 1
                    said = f"FAILED {error}"
                print(f"seed {seed} {death}: {said}", flush=True)
    print(f"{failed} failed; the slowest exception came after {longest:.2f} s of {TIMEOUT}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
