"""Drivers whose compiler ends the process that it works in. No driver here does: faults are injected
(TORCH_OCL_INJECT)."""

import os
import subprocess
import sys

import pytest
import torch

ENDS = {"exit": "status 8", "abort": "signal 6", "segv": "signal 11"}


def run(folder, code, inject, **variables):
    """What the process printed and wrote to stderr; it must have ended normally."""
    environment = os.environ | {
        "TORCH_OCL_CACHE_DIR": str(folder / "cache"),
        "TORCH_OCL_DUMP_SOURCE": str(folder / "sources"),
        "TORCH_OCL_INJECT": inject,
        "TORCH_OCL_AHEAD": "0",
    }
    code = "import os, warnings, torch, torch_ocl\ntorch.manual_seed(0)\n" + code
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment | variables, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


def answers(folder):
    return [file.read_text() for file in (folder / "cache" / "answers").iterdir()]


GEMM = """
a, b = torch.randn(70, 80), torch.randn(80, 90)
assert torch.allclose((a.to("ocl") @ b.to("ocl")).cpu(), a @ b, atol=1e-4)
assert not torch.ocl.fallbacks()
"""


@pytest.mark.parametrize("how", ENDS)
def test_a_probe_that_ends_the_process(tmp_path, how):
    if torch.ocl.get_device_properties().style != "cpu":
        pytest.skip("no such probe for this device")

    def prefetches():
        texts = [file.read_text() for file in (tmp_path / "sources").glob("*panel*.cl")]
        assert texts
        return ["#define PREFETCH 1\n" in text for text in texts]

    run(tmp_path, GEMM, f"{how}:selftest/prefetch.cpu.cl")
    assert not any(prefetches())
    assert "no: " + ENDS[how] in answers(tmp_path)
    if os.environ.get("TORCH_OCL_CALL_KERNELS", "") == "":  # another process was asked about functions again
        assert "yes" in answers(tmp_path)
    # the next process believes it
    run(tmp_path, GEMM, "")
    assert not any(prefetches())


def test_a_sound_probe(tmp_path):
    run(tmp_path, GEMM, "")
    assert "no" not in [answer[:2] for answer in answers(tmp_path)]


def test_an_operator_runs_on_the_cpu(tmp_path):
    code = """
x = torch.randn(30, 50)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = x.to("ocl").softmax(1)
assert torch.allclose(y.cpu(), x.softmax(1))
assert torch.ocl.fallbacks() == {"aten::_softmax.out": 1}, torch.ocl.fallbacks()
print(caught[0].message)
z = x.to("ocl")
assert z.softmax(1).exp_().sum().isfinite()  # others have not lost their kernels
assert list(torch.ocl.fallbacks()) == ["aten::_softmax.out"]
"""
    files = "segv:softmax/softmax.cl,segv:softmax/softmax.cpu.cl,segv:softmax/softmax.gpu.cl"
    output, _ = run(tmp_path, code, "unfamiliar," + files)
    for part in (
        "aten::_softmax.out",
        "could not be built",
        "signal 11",
        "softmax/softmax.",
        "kernel rows_forward",
        "defines: ",
    ):
        assert part in output
    # it is not tried again
    output, _ = run(tmp_path, code, "unfamiliar")
    assert "signal 11" in output

    code = """
try:
    torch.randn(30, 50).to("ocl").softmax(1)
except RuntimeError as error:
    print(error)
assert torch.ones(3, device="ocl").sum().item() == 3
"""
    output, _ = run(tmp_path, code, "unfamiliar," + files, TORCH_OCL_FALLBACK="error")
    assert "ended the process in which it was tried" in output


def test_an_operator_in_place(tmp_path):
    code = """
x = torch.randn(300)
y = x.to("ocl")
assert torch.allclose(y.cumsum_(0).cpu(), x.cumsum(0), atol=1e-4)
assert list(torch.ocl.fallbacks()) == ["aten::cumsum.out"], torch.ocl.fallbacks()
"""
    run(tmp_path, code, "unfamiliar,exit:scan/scan.cl,exit:scan/scan.cpu.cl,exit:scan/scan.gpu.cl")


def test_another_algorithm_of_matrix_products(tmp_path):
    _, errors = run(tmp_path, GEMM, "unfamiliar,abort:gemm/panel.cpu.cl,abort:gemm/simt.gpu.cl")
    assert "is left out for float32, because" in errors and "signal 6" in errors
    run(tmp_path, GEMM, "unfamiliar")


def test_another_algorithm_of_convolutions(tmp_path):
    code = """
x, w = torch.randn(2, 8, 12, 12, requires_grad=True), torch.randn(16, 8, 3, 3, requires_grad=True)
on_cpu = torch.nn.functional.conv2d(x, w)
gradients = torch.autograd.grad(on_cpu.square().sum(), (x, w))
x, w = (t.detach().to("ocl").requires_grad_() for t in (x, w))
y = torch.nn.functional.conv2d(x, w)
assert torch.allclose(y.cpu(), on_cpu, atol=1e-4)
for ours, theirs in zip(torch.autograd.grad(y.square().sum(), (x, w)), gradients):
    assert torch.allclose(ours.cpu(), theirs, rtol=1e-4, atol=1e-2)
assert not torch.ocl.fallbacks()
"""
    kernels = os.listdir(os.path.join(os.path.dirname(__file__), "../../../kernels_cl/conv"))
    files = [f"exit:conv/{file}" for file in kernels if not file.startswith("reference")]
    _, errors = run(tmp_path, code, ",".join(["unfamiliar", *files]))
    assert "is left out for float32" in errors


def test_a_device_that_cannot_be_opened(tmp_path):
    code = """
for _ in range(2):
    try:
        torch.ones(3, device="ocl")
    except RuntimeError as error:
        print(error)
assert torch.ones(3).sum().item() == 3
"""
    output, _ = run(tmp_path, code, "unfamiliar,exit:selftest/selftest.cl")
    assert output.count("ended the process in which it was tried") == 2
