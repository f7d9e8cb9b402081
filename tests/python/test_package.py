"""What is installed: one core for each minor version of torch, and a glue that serves every Python."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

import torch_ocl
from torch_ocl import _core

ROOT = Path(__file__).resolve().parent.parent.parent
MINOR = ".".join(torch.__version__.split(".")[:2])
# What macros and inline functions of the stable ABI expand to.
STABLE_PRIVATE = {"_Py_Dealloc", "_Py_NoneStruct", "_Py_IncRef", "_Py_DecRef", "_Py_TrueStruct", "_Py_FalseStruct"}


def python_symbols(file):
    listing = subprocess.run(["nm", "-D", "--undefined-only", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(_?Py\w+)", listing))


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_that_the_libraries_depend_on_no_version_of_python():
    folder = _core.library_folder()
    glue = python_symbols(folder / "_C.abi3.so")
    assert "PyModule_Create2" in glue
    private = {symbol for symbol in glue if symbol.startswith("_")}
    assert private <= STABLE_PRIVATE, private - STABLE_PRIVATE
    assert not {symbol for symbol in glue if "11" in symbol or "PyThreadState" in symbol or "PyFrame" in symbol}
    assert python_symbols(folder / "libtorch_ocl.so") == set()
    assert python_symbols(folder.parent / "libocl.so") == set()


def test_that_the_operator_library_knows_no_torch():
    needed = subprocess.run(
        ["objdump", "-p", _core.library_folder().parent / "libocl.so"], capture_output=True, text=True
    )
    if needed.returncode != 0:
        pytest.skip("needs objdump")
    names = re.findall(r"NEEDED\s+(\S+)", needed.stdout)
    assert any("OpenCL" in name for name in names)
    assert not any(name.startswith(("libtorch", "libc10", "libpython")) for name in names), names


@pytest.mark.parametrize("version", ["2.99.0", "3.0.1+cpu"])
def test_that_an_unknown_torch_gets_an_error_which_names_the_known(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ImportError) as caught:
        torch_ocl.library_path()
    assert version in str(caught.value) and MINOR in str(caught.value) and "pip install" in str(caught.value)


TRAIN = """
import torch, torch_ocl
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.LazyLinear(5)).to("ocl")
x = torch.randn(4, 3, 8, 8, device="ocl")
model(x)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(model(x), torch.arange(4, device="ocl"))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] and not torch.ocl.fallbacks(), (losses, torch.ocl.fallbacks())
print(torch_ocl.__file__)
"""


@pytest.mark.build
@pytest.mark.timeout(3000)
def test_that_a_wheel_serves_an_environment_without_a_compiler(tmp_path):
    packages = Path(torch.__file__).resolve().parent.parent
    command = [sys.executable, ROOT / "tools" / "wheel.py", "--torch", MINOR, "--from", packages]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    wheel = max((ROOT / "dist").glob("*.whl"), key=lambda file: file.stat().st_mtime)
    assert "-cp310-abi3-manylinux_2_34_" in wheel.name
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (site / "torch.pth").write_text(f"{packages}\n{Path(sys.prefix)}/lib/python{sys.version[:4]}/site-packages\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"CC": "false", "CXX": "false"}  # PoCL itself needs the linker that is on the path
    ran = subprocess.run([python, "-c", TRAIN], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert str(site) in ran.stdout
