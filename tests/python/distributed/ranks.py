"""Ranks of torch.distributed for tests: processes that stay, because each takes seconds to start."""

import os
import tempfile
import traceback
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp


def _serve(rank, size, folder, backend, environment, pipe):
    os.environ.update(environment)
    import torch

    import torch_ocl  # noqa: F401  loads the device

    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    while (job := pipe.recv()) is not None:
        function, arguments = job
        try:
            torch.ocl.reset_fallbacks()
            torch.manual_seed(0)
            result = function(rank, size, *arguments)
            assert torch.ocl.fallbacks() == {}, torch.ocl.fallbacks()
            pipe.send((True, result))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    """ranks(function, *arguments) runs function(rank, size, *arguments) on every rank and returns the results.

    An operator that falls back to the CPU is an error, as is anything that a rank raises.
    """

    def __init__(self, size=2, backend=None, environment=()):
        self.size, self.backend = size, backend
        self.environment = {"TORCH_OCL_HOST_THREADS": "1", **dict(environment)}
        self.processes = []

    def start(self):
        context = mp.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        self.pipes = []
        for rank in range(self.size):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self.size, self.folder.name, self.backend, self.environment, there)
            )
            process.start()
            there.close()
            self.processes.append(process)
            self.pipes.append(here)

    def __call__(self, function, *arguments, seconds=300):
        if not self.processes:
            self.start()
        for pipe in self.pipes:
            pipe.send((function, arguments))
        results = []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(seconds):
                self.kill()
                raise TimeoutError(f"rank {rank} did not answer")
            try:
                results.append(pipe.recv())
            except EOFError:
                codes = [process.exitcode for process in self.processes]
                self.kill()
                raise RuntimeError(f"rank {rank} died: {codes}") from None
        errors = [f"rank {rank}: {result}" for rank, (ok, result) in enumerate(results) if not ok]
        if errors:
            self.kill()  # the group may be in the middle of something
            raise AssertionError("\n".join(errors))
        return [result for _, result in results]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []

    def close(self):
        for pipe in self.pipes if self.processes else ():
            pipe.send(None)
        for process in self.processes:
            process.join(60)
        codes = [process.exitcode for process in self.processes]
        self.kill()
        assert all(code == 0 for code in codes), codes
