"""Runs calls in processes that may die."""

import os
import random
import threading

from tests.python.conformance import pool
from tests.python.registered.worker import operator

from . import draws, names

WORKER = "tests.python.hostile.worker"
LIMIT = 60  # seconds for a call


def draw(count, seed, match=None):
    """Texts of `count` calls: every operator in a random order, then again."""
    r = random.Random(seed)
    chosen = [name for name in names.all_names() if not match or match.search(name)]
    texts = []
    while len(texts) < count and chosen:
        order = chosen[:]
        r.shuffle(order)
        before = len(texts)
        for name in order[: count - len(texts)]:
            try:
                texts.append(draws.call(operator(name)._schema, random.Random(f"{seed} {name} {len(texts)}")))
            except (draws.Skipped, AttributeError, RuntimeError):
                continue  # an argument that nothing is drawn for; no such overload in Python
        if len(texts) == before:
            break
    return texts


def one(worker, text, limit=LIMIT):
    """(how the process ended, or None; what the call said; a worker to go on with)"""
    record, worker = pool.run_case(worker, text, None, limit)
    result = record["checks"].get("call") or record["checks"]["prepare"]
    died = result["status"] in ("crash", "hang")
    return (f"{result['status']}: {result['failures'][0]}" if died else None), result.get("said", ""), worker


class Place:
    """One process of the device named by HOSTILE_DEVICE, replaced when it dies."""

    def __init__(self, device="ocl"):
        self.device, self.worker, self.history = device, None, []

    def call(self, text, limit=LIMIT):
        """(how the process ended, or None; what the call said)"""
        if self.worker is None:
            self.start()
        self.history.append(text)
        died, said, worker = one(self.worker, text, limit)
        if worker is not self.worker:  # run_case has started another one
            worker.end()
            self.worker = None
        return died, said

    def start(self):
        with LOCK:  # the environment is the process's
            os.environ["HOSTILE_DEVICE"] = self.device
            self.worker, self.history = pool.Worker(WORKER), []

    def end(self):
        if self.worker is not None:
            self.worker.process.stdin.close()
            self.worker.end()
            self.worker = None


LOCK = threading.Lock()


def dies_on_cpu(text):
    place = Place("cpu")
    died, _ = place.call(text)
    place.end()
    return died


def judge(text, died, history, rows):
    """The report of a death, or None where PyTorch's code for the CPU is known to die of the call."""
    alone = Place()
    again, _ = alone.call(text)
    alone.end()
    covering = [row for row in rows if row.pattern.fullmatch(names.operator_of(text))]
    on_cpu = dies_on_cpu(text)
    if covering and on_cpu:
        return None
    lines = [text, f"    {died}", f"    alone: {again}", f"    on the CPU: {on_cpu}"]
    if not again:
        lines += ["    after these calls:", *[f"        {one}" for one in history[-200:]]]
    return "\n".join(lines)


def run(texts, jobs=1, report=print, progress=None):
    """Makes the calls in `jobs` processes; calls report(text) for each death. Returns (deaths, calls that returned)."""
    rows, work, deaths, returned = names.known(), iter(enumerate(texts)), [], [0]

    def serve():
        place = Place()
        while True:
            with LOCK:
                number, text = next(work, (None, None))
            if text is None:
                break
            died, said = place.call(text)
            returned[0] += said == "done"
            if progress:
                progress(number, text, died or said)
            if died:
                found = judge(text, died, place.history[:-1], rows)
                if found:
                    deaths.append(found)
                    report(found)
        place.end()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return deaths, returned[0]
