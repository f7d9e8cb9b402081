"""Worker processes that survive a crash or a hang of a case: it is recorded, and the rest of the case runs in a new
process."""

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    def __init__(self, module="tests.python.conformance.worker"):
        self.module = module
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        self.pending = b""

    def send(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, timeout):
        """The next event; None when the process ended, TimeoutError when nothing came."""
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.process.stdout], [], [], timeout)
            if not ready:
                raise TimeoutError
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.pending += data
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def last_words(self):
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 600))
        return self.errors.read().decode(errors="replace").strip()

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.process.returncode


def run_case(worker, name, only, limit):
    """(record of the case, worker to go on with)"""
    record = {"case": name, "checks": {}, "seconds": 0.0}
    while True:
        current = None
        try:
            worker.send({"case": name, "skip": list(record["checks"]), "only": only})
            while True:
                event = worker.receive(limit)
                if event is None:
                    raise BrokenPipeError
                if "done" in event:
                    record["seconds"] += event["seconds"]
                    return record, worker
                current = event.pop("check")
                if "status" in event:
                    record["checks"][current] = event
                    current = None
        except (BrokenPipeError, TimeoutError) as error:
            status = "hang" if isinstance(error, TimeoutError) else "crash"
            words = worker.last_words()
            code = worker.end()
            worker = Worker(worker.module)
            if current is None:  # before the first check: the case itself cannot be prepared
                record["checks"]["prepare"] = {"status": status, "failures": [f"exit {code}: {words[-300:]}"]}
                return record, worker
            record["checks"][current] = {
                "status": status,
                "failures": [f"{f'nothing for {limit} s' if status == 'hang' else f'exit {code}'}: {words[-300:]}"],
            }


def run_all(names, jobs, only, limit, finished, module="tests.python.conformance.worker"):
    """Runs the cases on `jobs` processes of `module`; calls finished(record) after each, one at a time."""
    work = queue.SimpleQueue()
    for name in names:
        work.put(name)
    lock = threading.Lock()

    def serve():
        worker = Worker(module)
        while True:
            try:
                name = work.get_nowait()
            except queue.Empty:
                break
            record, worker = run_case(worker, name, only, limit)
            with lock:
                finished(record)
        worker.process.stdin.close()
        try:
            worker.process.wait(30)
        except subprocess.TimeoutExpired:
            worker.end()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
