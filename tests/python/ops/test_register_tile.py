"""Packed products and convolutions with the register tile of AVX-512 and with that of narrower registers, each forced: no further from float64
than four times the CPU's own error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

ROOT = Path(__file__).parents[3]
# images, channels, edge, outputs, kernel, stride: Winograd and its gradients, plain and strided pointwise, gathered, edges of tiles
CONVOLUTIONS = [(2, 40, 21, 33, 3, 1), (3, 65, 13, 37, 1, 1), (2, 48, 16, 40, 1, 2), (2, 31, 15, 33, 3, 2), (2, 24, 17, 50, 5, 1)]
PRODUCTS = [(101, 77, 301), (33, 16, 801), (520, 330, 600)]


def relative_error(value, truth):
    assert value.isfinite().all()
    return ((value.detach().cpu().double() - truth).norm() / truth.norm()).item()


def convolution_and_gradients(x, w, g, stride):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = F.conv2d(x, w, None, stride, w.shape[2] // 2)
    y.backward(g)
    return y, x.grad, w.grad


def cases():
    """{name: (function of tensors, tensors)}"""
    generator = torch.Generator().manual_seed(0)

    def values(*shape):
        return torch.randn(*shape, generator=generator)

    result = {}
    for images, channels, edge, outputs, kernel, stride in CONVOLUTIONS:
        out = (edge + kernel // 2 * 2 - kernel) // stride + 1
        tensors = values(images, channels, edge, edge), values(outputs, channels, kernel, kernel), values(images, outputs, out, out)
        result[f"conv {tuple(tensors[0].shape)} {tuple(tensors[1].shape)}/{stride}"] = lambda x, w, g, s=stride: convolution_and_gradients(x, w, g, s), tensors
    for m, n, k in PRODUCTS:
        result[f"mm {m} {n} {k}"] = lambda a, b: (a @ b, a.t().contiguous().t() @ b.t().contiguous().t()), (values(m, k), values(k, n))
    return result


def errors():
    """{name: [worst error on ocl, worst error of the CPU]}"""
    found = {}
    for name, (function, tensors) in cases().items():
        truth = function(*(t.double() for t in tensors))
        found[name] = [max(map(relative_error, function(*(t.to(where) for t in tensors)), truth)) for where in ("ocl", "cpu")]
    return found


@pytest.mark.parametrize("floats", [8, 16])
def test_both_forms(device, floats):
    if torch.ocl.get_device_properties().style != "fat":
        pytest.skip("CPU-style kernels only")
    variables = os.environ | {"TORCH_OCL_VECTOR_FLOATS": str(floats), "TORCH_OCL_FALLBACK": "error"}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT), variables.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, __file__], env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["vector_floats"] == floats
    wrong = {name: (ours, native) for name, (ours, native) in answer["errors"].items() if not ours <= max(4 * native, 1e-6)}
    assert len(answer["errors"]) == len(CONVOLUTIONS) + len(PRODUCTS) and not wrong


if __name__ == "__main__":
    import torch_ocl  # noqa: F401

    print(json.dumps({"vector_floats": torch.ocl.get_device_properties().vector_floats, "errors": errors()}))
