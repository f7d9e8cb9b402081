"""The example scripts: each runs, with fast settings, and says that its results are right."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

import torch_ocl
from conftest import ROOT

SCRIPT = ROOT / "examples" / "train_images.py"


def run(folder, *arguments):
    command = [
        sys.executable,
        str(SCRIPT),
        "--model",
        "resnet18",
        "--size",
        "32",
        "--images",
        "64",
        "--batch",
        "16",
        "--workers",
        "1",
        "--quiet",
    ]
    done = subprocess.run([*command, "--output", str(folder), *arguments], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "resnet18.json").read_text())


# script and arguments: a text that the output must have
SCRIPTS = {
    "prefetch.py --steps 6 --batch 32": r"plain +[\d.]+ s, mean loss ([\d.]+)\nprefetched +[\d.]+ s, mean loss \1",
    "mixed_precision.py --steps 120": r"(?s)float32 +accuracy 0\.[89].*float16 +accuracy 0\.[89].*bfloat16 +accuracy "
    r"0\.[89]",
    "resume.py --steps 6": "^same weights",
    "profile_step.py --size 32": r"(?s)Self OCL.*aten::.*Self CPU time total",
    "custom_kernel.py --steps 20": "agree",
    "two_devices.py --steps 5": r"ocl:0 and ocl:\d: .*\nagree",
}


@pytest.mark.parametrize("command", list(SCRIPTS))
def test_script(command):
    script, *arguments = command.split()
    if script == "profile_step.py" and torch.__version__ < "2.12":
        pytest.skip("this version's profiler takes no PrivateUse1 plug-in")
    done = subprocess.run([sys.executable, str(ROOT / "examples" / script), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(SCRIPTS[command], done.stdout) and "DISAGREE" not in done.stdout, done.stdout


@pytest.mark.slow
def test_operator_in_cpp(tmp_path):
    variables = os.environ | {"TORCH_EXTENSIONS_DIR": str(tmp_path), "MAX_JOBS": "1"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "cpp_extension" / "run.py")],
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["agree", "squared_relu is implemented for float32 tensors, got Half"]


def run_command(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_operator_library_in_cpp(tmp_path):
    """Installed without the backend: only public headers, and a program that knows nothing else of this tree."""
    if not (ROOT / "build" / "cmake" / "CMakeCache.txt").is_file():
        pytest.skip("there is no build folder to install from")
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run_command("cmake", "--install", str(ROOT / "build" / "cmake"), "--prefix", str(prefix), "--component", "ops")
    assert not list(prefix.rglob("winograd*.h")) and list(prefix.rglob("ocl/ops.h"))
    source = str(ROOT / "examples" / "cpp_ops")
    run_command("cmake", "-S", source, "-B", str(build), f"-DCMAKE_PREFIX_PATH={prefix}")
    run_command("cmake", "--build", str(build))
    mean = re.search(r"mean of the output ([\d.]+)", run_command(str(build / "block")))
    assert mean and abs(float(mean[1]) - 0.3989) < 0.01


@pytest.mark.full  # a minute of compiling
def test_training_in_cpp(tmp_path):
    configure = [
        "cmake",
        "-S",
        str(ROOT / "examples" / "cpp_train"),
        "-B",
        str(tmp_path),
        f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}",
    ]
    subprocess.run([*configure, f"-DTORCH_OCL_LIBRARY={torch_ocl.library_path()}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path)], check=True, capture_output=True)
    done = subprocess.run(
        [str(tmp_path / "train")], env=os.environ | {"TORCH_OCL_FALLBACK": "error"}, capture_output=True, text=True
    )
    assert done.returncode == 0 and "ocl learns what the CPU learns" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_compare_and_resume(tmp_path):
    text, whole = run(tmp_path / "whole", "--compare", "ocl,cpu", "--epochs", "2")
    assert "operators run on the CPU instead  none" in text
    assert abs(whole["ocl"]["loss"][0] - whole["cpu"]["loss"][0]) < 1e-3
    assert (tmp_path / "whole" / "resnet18.png").stat().st_size > 1000
    checkpoint = tmp_path / "whole" / "resnet18-ocl.pt"
    _, longer = run(tmp_path / "longer", "--device", "cpu", "--epochs", "3", "--resume", str(checkpoint))
    assert longer["cpu"]["loss"][:8] == whole["ocl"]["loss"] and len(longer["cpu"]["loss"]) == 12
