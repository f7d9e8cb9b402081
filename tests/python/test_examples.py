"""The example script: runs, writes its files, and continues from a checkpoint as if it had not stopped."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT

SCRIPT = ROOT / "examples" / "train_images.py"


def run(folder, *arguments):
    command = [sys.executable, str(SCRIPT), "--model", "resnet18", "--size", "32", "--images", "64", "--batch", "16", "--workers", "1", "--quiet"]
    done = subprocess.run([*command, "--output", str(folder), *arguments], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "resnet18.json").read_text())


@pytest.mark.slow
def test_compare_and_resume(tmp_path):
    text, whole = run(tmp_path / "whole", "--compare", "ocl,cpu", "--epochs", "2")
    assert "operators run on the CPU instead  none" in text
    assert abs(whole["ocl"]["loss"][0] - whole["cpu"]["loss"][0]) < 1e-3
    assert (tmp_path / "whole" / "resnet18.png").stat().st_size > 1000
    checkpoint = tmp_path / "whole" / "resnet18-ocl.pt"
    _, longer = run(tmp_path / "longer", "--device", "cpu", "--epochs", "3", "--resume", str(checkpoint))
    assert longer["cpu"]["loss"][:8] == whole["ocl"]["loss"] and len(longer["cpu"]["loss"]) == 12
