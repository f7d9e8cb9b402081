"""Under torchrun: examples, processors, devices, the death of a rank, the end of processes."""

import os
import re

import pytest
import torch
import torch.distributed as dist

from conftest import ROOT
from distributed.launch import torchrun, write

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no torch.distributed with Gloo"
)

EXAMPLES = {
    "ddp.py --steps 5 --batch 16": r"2 ranks.*\nagree",
    "fsdp.py --steps 4": r"2 ranks: rank 0 keeps.*\nagree",
    "heterogeneous.py --steps 4 --batch 64": r"(?s)ocl:0 .*of 64 samples.*\nagree",
    "heterogeneous.py --steps 4 --batch 64 --shares 40,24": r"(?s)40 of 64 samples\n.*24 of 64 samples.*\nagree",
}


@pytest.mark.parametrize("command", list(EXAMPLES))
def test_example(command):
    script, *arguments = command.split()
    done = torchrun(ROOT / "examples" / script, *arguments)
    assert done.returncode == 0, done.stderr
    assert re.search(EXAMPLES[command], done.stdout), done.stdout


# Threads and programs of each rank; what a rank compiles goes to its standard error.
SHARES = """
import os, torch, torch_ocl, torch.distributed as dist
dist.init_process_group()
x = torch.rand(1 << 16, device="ocl")
y = torch.fft.fft(x).abs().cumsum(0).sort().values.sum()
dist.all_reduce(y)
y = y.item()
facts = torch.ocl.get_device_properties()
# One write: torchrun runs `python -u`, which writes each argument of print by itself, between those of other ranks.
print(f"threads {facts.compute_units} gpu {facts.is_gpu} device {torch.ocl.current_device()}\\n", end="", flush=True)
dist.barrier()
"""


def test_ranks_share_processors_and_compiled_programs(device, tmp_path):
    script = write(tmp_path, SHARES)
    done = torchrun(script, TORCH_OCL_CACHE_DIR=str(tmp_path), TORCH_OCL_BUILD_LOG="1")
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"threads (\d+) gpu (\w+) device (\d+)", done.stdout)
    assert len(lines) == 2, done.stdout
    if lines[0][1] == "False":
        assert sum(int(threads) for threads, _, _ in lines) == max(2, len(os.sched_getaffinity(0)))
    assert sorted(int(index) for _, _, index in lines) == sorted(rank % torch.ocl.device_count() for rank in range(2))
    done = torchrun(script, OMP_NUM_THREADS="3")
    found = re.findall(r"threads (\d+)", done.stdout)
    if lines[0][1] == "False":
        assert found == [str(min(3, len(os.sched_getaffinity(0))))] * 2
    done = torchrun(script, TORCH_OCL_HOST_THREADS="3")
    assert done.returncode == 0, done.stdout + done.stderr
    if lines[0][1] == "False":
        assert re.findall(r"threads (\d+)", done.stdout) == ["3", "3"]


DEATH = """
import os, random, signal, sys, threading, time, torch, torch_ocl, torch.distributed as dist
from datetime import timedelta
dist.init_process_group(timeout=timedelta(seconds=20))
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(4)]).to("ocl")
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05)
x = torch.rand(64, 128, device="ocl")
model(x).square().mean().backward()
torch.ocl.synchronize()
dist.barrier()
begin = time.monotonic()
if rank == 1:
    delay = float(sys.argv[1])
    threading.Thread(target=lambda: (time.sleep(delay), os.kill(os.getpid(), signal.SIGKILL))).start()
try:
    while time.monotonic() < begin + 60:
        model(x).square().mean().backward()
except Exception as error:
    after = time.monotonic() - begin
    print("error after", after, type(error).__name__, flush=True)
    sys.exit(3)
"""


def test_the_death_of_a_rank_is_an_error_on_the_others(tmp_path):
    # --monitor-interval: rank 0 is to find out by itself before torchrun ends it. More deaths: deaths.py.
    delay = 0.013
    done = torchrun(write(tmp_path, DEATH), str(delay), options=("--monitor-interval", "15"))
    assert done.returncode != 0
    found = re.search(r"error after ([\d.]+) (\w+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) < 20 + delay
    assert "Segmentation" not in done.stderr and "SIGABRT" not in done.stderr, done.stderr


END = """
import torch, torch_ocl, torch.distributed as dist
dist.init_process_group()
x = torch.ones(1 << 20, device="ocl")
works = [dist.all_reduce(x, async_op=True) for _ in range(20)]
for work in works:
    work.wait()
print("end", flush=True)
"""


def test_the_end_without_destroy_process_group(tmp_path):
    done = torchrun(write(tmp_path, END))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("end") == 2
    assert "SIGSEGV" not in done.stderr and "SIGABRT" not in done.stderr, done.stderr
