"""Kernels that were compiled ahead of time (docs/design/programs.md) give what the driver's give, and are left alone
where their library cannot be used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_ocl

LIBRARIES = list((Path(torch_ocl.__file__).parent / "lib").glob("libocl_ahead_*.so"))

pytestmark = pytest.mark.skipif(
    not LIBRARIES or torch.ocl.get_device_properties().style != "cpu",
    reason="no kernels are compiled ahead of time in this build, or for this device",
)


@pytest.fixture(autouse=True)
def called_here():
    name = torch.ocl.get_device_properties().platform_name
    own = ("TORCH_OCL_KERNEL_STYLE", "TORCH_OCL_CALL_KERNELS", "TORCH_OCL_AHEAD")
    if name not in ("Portable Computing Language", "Intel(R) OpenCL") or os.environ["TORCH_OCL_HOST_THREADS"] == "0":
        pytest.skip("kernels of this device are enqueued")
    if any(variable in os.environ for variable in own):
        pytest.skip("the environment says how kernels are run")


# A training step of a network with most kinds of layers; saves what came out, prints what served.
STEP = """
import sys, warnings, torch, torch_ocl
from torch import nn
from torch_ocl import _core
torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    nn.Conv2d(64, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1, bias=False),
    nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 128, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
).to("ocl")
x, y = torch.randn(8, 3, 64, 64).to("ocl"), torch.arange(8).to("ocl")
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
loss = nn.functional.cross_entropy(net(x), y)
loss.backward()
gradients = [p.grad.cpu() for p in net.parameters()]
optimizer.step()
assert not torch.ocl.fallbacks() and all(p.device.type == "ocl" for p in net.parameters())
torch.save([loss.detach().cpu(), *gradients, *(p.detach().cpu() for p in net.parameters())], sys.argv[1])
print(_core.core().kernels_ahead())
"""


def step(folder, name, **variables):
    """The results, what the library says about its kernels, and stderr."""
    command = [sys.executable, "-c", STEP, str(folder / name)]
    process = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    return torch.load(folder / name), process.stdout.strip(), process.stderr


def assert_close(results, expected):
    # Both compilers round alike; sums of up to 8 * 32 * 32 terms may be taken apart in another way.
    for one, other in zip(results, expected, strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=0, atol=4 * 1.2e-7 * 8192**0.5 * max(scale, 1e-3))


def test_results_are_those_of_the_drivers_compiler(tmp_path):
    expected, said, _ = step(tmp_path, "driver", TORCH_OCL_AHEAD="0")
    assert said == "not used"
    for floats in ("8", ""):
        results, said, _ = step(tmp_path, "ahead", TORCH_OCL_AHEAD="1", TORCH_OCL_VECTOR_FLOATS=floats)
        assert "kernels taken" in said
        assert int(said.rsplit(", ", 1)[1].split()[0]) > 5, said
        assert_close(results, expected)


def test_a_damaged_library_is_ignored(tmp_path):
    package = tmp_path / "torch_ocl"
    shutil.copytree(Path(torch_ocl.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "include"))
    for library in (package / "lib").glob("libocl_ahead_*.so"):
        data = bytearray(library.read_bytes())
        data[len(data) // 2] ^= 1
        library.write_bytes(bytes(data))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    _, said, errors = step(tmp_path, "damaged", TORCH_OCL_AHEAD="1", PYTHONPATH=path)
    assert said.startswith(str(tmp_path)) and "damaged" in said
    assert errors.count("compiled ahead of time are not used") == 1
