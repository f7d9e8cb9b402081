"""The C++ example builds against the package, and its network learns on `ocl` what it learns on the CPU, without one fallback."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import torch_ocl
from conftest import ROOT


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake")
def test_libtorch_example(tmp_path, device):
    library = Path(torch_ocl.__file__).parent / "lib" / "libtorch_ocl.so"
    options = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", f"-DTORCH_OCL={library}", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(["cmake", "-S", ROOT / "examples" / "libtorch", "-B", tmp_path, *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True)
    result = subprocess.run([tmp_path / "train"], env=os.environ | {"TORCH_OCL_FALLBACK": "error"}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("step") == 10
