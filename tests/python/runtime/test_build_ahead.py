"""Programs that PoCL compiles while Python goes on: processes of our own take part."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

COMPILER = "torch_ocl_compiler"

STEP = """
import json, os, sys, time, torch, torch_ocl
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.GELU(), torch.nn.Flatten(),
    torch.nn.Linear(16 * 36, 10),
).to("ocl")
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
losses = []
for _ in range(4):  # the last one builds the program of chains where no other process does
    x = torch.ones(4, 3, 8, 8, device="ocl").cumsum(-1)
    loss = torch.nn.functional.cross_entropy(model(x), torch.arange(4, device="ocl"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
programs = os.environ["TORCH_OCL_CACHE_DIR"] + "/programs"
kept = len(os.listdir(programs)) if os.path.isdir(programs) else 0
print(json.dumps({"losses": losses, "counts": torch.ocl.build_counts(), "kept": kept}), flush=True)
"""


@pytest.fixture(autouse=True)
def pocl():
    if torch.ocl.get_device_properties().platform_name != "Portable Computing Language":
        pytest.skip("programs of other drivers are compiled where they are asked for")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("with one processor every command is run, and compiled, when it is issued")
    if not (Path(torch.ocl.__file__).parents[1] / "lib" / COMPILER).exists():
        pytest.fail("the compiler's program was not installed")


def start(folder, processes, code=STEP):
    caches = {
        "TORCH_OCL_CACHE_DIR": f"{folder}/programs",
        "POCL_CACHE_DIR": f"{folder}/pocl",
        "XDG_CACHE_HOME": f"{folder}/others",
    }
    for path in caches.values():
        os.makedirs(path, exist_ok=True)
    environment = os.environ | caches | {"TORCH_OCL_BUILD_PROCESSES": str(processes), "TORCH_OCL_AHEAD": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer(process):
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def compilers(process_id=None):
    """Process ids of the compilers that live, of one process or of all."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = folder.joinpath("stat").read_text().partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
        except OSError:
            continue
        if COMPILER.startswith(name) and process_id in (None, int(parent)) and state != "Z":
            found.add(int(folder.name))
    return found


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    return condition()


def test_same_results_and_kept_at_once(tmp_path):
    alone = answer(start(tmp_path / "alone", 0))
    ahead = answer(start(tmp_path / "ahead", 2))
    assert ahead["losses"] == alone["losses"]
    assert ahead["counts"] == alone["counts"] and ahead["counts"][0] > 10
    # What this process compiles itself is written at its end, the programs of probes by the process that tries them.
    assert alone["kept"] <= 2 and ahead["kept"] > 3
    assert answer(start(tmp_path / "ahead", 2))["counts"][1] >= ahead["kept"]


def test_compilers_that_die(tmp_path):
    process = start(tmp_path, 2)
    killed = set()
    while process.poll() is None:
        for compiler in compilers(process.pid):
            try:
                os.kill(compiler, signal.SIGKILL)
                killed.add(compiler)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    result = answer(process)
    assert killed and all(loss == loss and loss > 0 for loss in result["losses"])
    assert len(killed) <= 8  # those that try functions and probes; those that compile are not started for ever


def test_compilers_end_with_their_parent(tmp_path):
    process = start(tmp_path, 2)
    started = wait_for(lambda: compilers(process.pid))
    assert started
    process.kill()
    process.communicate()
    assert wait_for(lambda: not started & compilers())


def test_error_at_the_next_wait(tmp_path):
    kernels = tmp_path / "kernels"
    (kernels / "softmax").mkdir(parents=True)
    (kernels / "softmax" / "softmax.cpu.cl").write_text("this is no program")
    code = f"""
import os
os.environ["TORCH_OCL_KERNEL_DIR"] = {str(kernels)!r}
import torch, torch_ocl
x = torch.ones(4, 4, device="ocl")
y = x.softmax(1)
try:
    torch.ocl.synchronize()
    print("no error")
except RuntimeError as error:
    print("softmax/softmax.cpu.cl did not compile" in str(error))
print((x + 1).sum().item())
"""
    process = start(tmp_path, 2, code)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert output.split() == ["True", "32.0"]
