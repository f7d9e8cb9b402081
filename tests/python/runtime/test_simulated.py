"""Devices that this machine does not have (TORCH_OCL_SIMULATE): less local memory, smaller work-groups, other compute
units, no float64.

Each device is a process that runs tests of tests/python/ops. The driver itself launches the kernels, so that it says
how much local memory they take; what the simulated device does not have is an error.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPERATORS = [
    f"tests/python/ops/test_{name}.py" for name in ("conv", "gemm", "norm", "softmax", "reduce", "sort", "scan")
]
# The families that plan by what the device has, in float32.
SELECTED = (
    "(test_conv2d or test_conv3d or test_conv_transpose2d or test_mm or test_bmm or test_batch_norm or test_layer_norm"
    " or test_group_norm or test_values_and_gradients) and float32 or test_reduce and (test_dims or test_whole)"
    " or test_sort_of_long_rows or test_topk or test_scan and contiguous"
)
DEVICES = {
    "local_memory=16384": "0",  # less than OpenCL promises
    "local_memory=32768": "0",
    "local_memory=65536": "0",
    "local_memory=262144": "0",
    "max_work_group=64": "0",
    "compute_units=1": "auto",
    "compute_units=3": "auto",
    "compute_units=64": "auto",
    "fp64=0,fma=0": "auto",
    "fp16=0,sub_groups=0,float_atomics=0,int64_atomics=0": "auto",
}


def simulated(device, command, calls_kernels="auto"):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    variables |= {"TORCH_OCL_SIMULATE": device, "TORCH_OCL_FALLBACK": "error", "OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT), variables.get("PYTHONPATH", "")])
    if calls_kernels != "auto":
        variables["TORCH_OCL_CALL_KERNELS"] = calls_kernels
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=1700
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("device_text", DEVICES)
def test_operators_are_right(device_text):
    options = ["-p", "no:cacheprovider", "-k", SELECTED, *OPERATORS]
    output, _ = simulated(device_text, ["-m", "pytest", *options], DEVICES[device_text])
    assert " passed" in output and "skipped" not in output


CONVOLUTION = """
import torch, torch_ocl
from tests.python.ops.kernels import kernels_of
x = torch.randn(2, 32, 20, 20, device="ocl", requires_grad=True)
w = torch.randn(48, 32, 3, 3, device="ocl", requires_grad=True)
a = torch.randn(90, 200, device="ocl")
def run():
    torch.nn.functional.conv2d(x, w, padding=1).square().sum().backward()
    a @ a.t()
print(kernels_of(run))
"""


@pytest.mark.parametrize("local_memory", [32768, 65536, 131072])
def test_products_and_convolutions_have_an_algorithm_besides_the_reference(local_memory):
    output, _ = simulated(f"local_memory={local_memory}", ["-c", CONVOLUTION], "0")
    if output == "None\n":
        pytest.skip("the profiler of this torch does not see kernels")
    # Winograd's steps are called by what they do
    assert "reference" not in output and ("conv" in output or "transform_" in output)


LARGE = """
import torch, torch_ocl
x = torch.randn(1, 64, 80, 80, device="ocl")
w = torch.randn(128, 64, 3, 3, device="ocl")
torch.nn.functional.conv2d(x, w, padding=1).sum().item()
torch.nn.functional.conv2d(x, w, padding=1).sum().item()
"""


def test_a_large_convolution_by_the_reference_is_announced_once():
    _, errors = simulated("local_memory=8192,max_work_group=64", ["-c", LARGE])
    assert errors.count("runs the slow reference kernel") == 1 and "simt: " in errors


WITHOUT_DOUBLES = """
import torch, torch_ocl
functional = torch.nn.functional
for dtype in (torch.float64, torch.complex128):
    matrix = lambda: torch.randn(4, 4, dtype=dtype).to("ocl")
    for function in (
        lambda: torch.ones(3, dtype=dtype, device="ocl") + 1,
        lambda: torch.ones(3, device="ocl").to(dtype),
        lambda: matrix() @ matrix(),
        lambda: matrix().sum(),
    ):
        try:
            print("computed", dtype, function())
        except RuntimeError as error:
            assert "double precision" in str(error), error
x = torch.linspace(-2, 3, 1000)
for function in (
    torch.exp, torch.erfinv, torch.lgamma, torch.digamma, torch.special.i0, lambda t: t.abs().cumsum(0),
    lambda t: t.logcumsumexp(0), lambda t: t.pow(2.5), lambda t: t * 0.1 + 3, lambda t: t.mean(), lambda t: t.std(),
    lambda t: torch.fft.rfft(t), lambda t: torch.linspace(-1, 1, 77, device=t.device),
    lambda t: torch.arange(0, 1, 0.01, device=t.device), lambda t: t.long().cumsum(0), functional.gelu,
    lambda t: t.softmax(0), lambda t: t.norm(), lambda t: functional.layer_norm(t, (1000,)),
    lambda t: t.to(torch.int64).float(), lambda t: t > 0.3,
):
    torch.testing.assert_close(function(x.to("ocl")).cpu(), function(x), rtol=2e-5, atol=2e-5, equal_nan=True)
torch.manual_seed(0)
assert abs(torch.randn(10000, device="ocl").mean().item()) < 0.1 and 0 <= torch.rand(99, device="ocl").min().item()
print("done")
"""


def test_without_float64_doubles_are_an_error_and_floats_are_right():
    """No kernel of float32 uses double on the way: the type is an error in programs of this device."""
    output, _ = simulated("fp64=0", ["-c", WITHOUT_DOUBLES])
    assert output == "done\n"


def test_misspelt_parts_are_named():
    _, errors = simulated(
        "fp65=0,local_memory=much,compute_units=5", ["-c", "import torch, torch_ocl; torch.ones(1).to('ocl')"]
    )
    assert "'fp65=0' is ignored: known are compute_units, local_memory" in errors
    assert "'local_memory=much' is ignored: local_memory takes bytes" in errors
