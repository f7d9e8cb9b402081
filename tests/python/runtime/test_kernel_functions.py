"""Kernels that are called as functions: another process tries first whether that works, once for a cache folder."""

import json
import os
import platform
import subprocess
import sys

import pytest
import torch

STEP = """
import json, torch, torch_ocl
x = torch.arange(60000, dtype=torch.float32, device="ocl").view(200, 300).sin()
rows = torch.tensor([5, 3], device="ocl")
results = [x.sum(1), x.softmax(0), x.t().contiguous() * 2, x @ x.t()[:, :40], x.index_select(0, rows)]
print(json.dumps([result.cpu().view(torch.int32).flatten().tolist() for result in results]))
"""


@pytest.fixture(autouse=True)
def callable_here():
    name = torch.ocl.get_device_properties().platform_name
    if (
        platform.machine() != "x86_64"
        or sys.platform != "linux"
        or name not in ("Portable Computing Language", "Intel(R) OpenCL")
    ):
        pytest.skip("kernels of this device are enqueued")
    own = ("TORCH_OCL_KERNEL_STYLE", "TORCH_OCL_CALL_KERNELS")
    if os.environ["TORCH_OCL_HOST_THREADS"] == "0" or any(variable in os.environ for variable in own):
        pytest.skip("the environment says how kernels are run")


def run(folder, **variables):
    """The results' bits, and whether kernels were compiled as functions."""
    sources = folder / "sources"
    ours = {"TORCH_OCL_CACHE_DIR": str(folder / "cache"), "TORCH_OCL_DUMP_SOURCE": str(sources), "TORCH_OCL_AHEAD": "0"}
    environment = os.environ | ours | variables
    process = subprocess.run([sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    softmax = [file.read_text() for file in sources.glob("softmax-softmax.*.cl")]
    for file in sources.iterdir():
        file.unlink()
    assert softmax
    return json.loads(process.stdout.splitlines()[-1]), all("_box(" in text for text in softmax)


def test_same_bits_and_one_answer(tmp_path):
    called, as_functions = run(tmp_path)
    answers = list((tmp_path / "cache" / "answers").iterdir())
    assert as_functions and "yes" in [answer.read_text() for answer in answers]
    enqueued, as_functions = run(tmp_path, TORCH_OCL_CALL_KERNELS="0")
    assert not as_functions and enqueued == called
    # what another process found is believed
    for answer in answers:
        answer.write_text("no: signal 6")
    refused, as_functions = run(tmp_path)
    assert not as_functions and refused == called and answers[0].read_text() == "no: signal 6"


def test_without_a_cache(tmp_path):
    _, as_functions = run(tmp_path, TORCH_OCL_CACHE="0")
    assert as_functions and not (tmp_path / "cache" / "answers").exists()


@pytest.mark.parametrize("fault", ["unclean_exit", "unpinned"])
def test_enqueued_where_calling_is_not_safe(tmp_path, fault):
    """A process that called kernels aborts at its end; or nothing keeps their code loaded. run() checks the exit
    status."""
    expected, _ = run(tmp_path / "sound")
    results, as_functions = run(tmp_path / "faulty", TORCH_OCL_INJECT=fault)
    assert not as_functions and results == expected
    assert any(answer.read_text().startswith("no") for answer in (tmp_path / "faulty" / "cache" / "answers").iterdir())
