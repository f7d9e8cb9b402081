"""The Python package around the library, and the example, as an installed wheel has them."""

import os
import shutil
import subprocess
import sys

import onnx
import pytest

from conftest import ROOT

from .nets import resnet
from .sessions import library

PACKAGE = ROOT / "packages" / "onnxruntime-ep-ocl" / "onnxruntime_ep_ocl"


@pytest.fixture
def installed(tmp_path):
    """Environment variables of a process that finds the package with the library of the build."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name)
    for name in (library().name, "torch_ocl_compiler"):
        shutil.copy(library().parent / name, tmp_path / PACKAGE.name)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_the_example_classifies(installed, tmp_path):
    onnx.save(resnet()[0], tmp_path / "net.onnx")
    command = [sys.executable, ROOT / "examples" / "onnxruntime_classify.py", tmp_path / "net.onnx", "--size", "64"]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "the CPU provider gives the same scores" in done.stdout


def test_a_missing_library_is_an_error(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name)
    program = "import onnxruntime_ep_ocl as o; assert o.get_ep_names() == [o.get_ep_name()]; o.get_library_path()"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)  # fmt: skip
    assert "FileNotFoundError" in done.stderr
