"""Matrix products and convolutions with their gradients, compared with float64, and test files that run themselves
under other variables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

ROOT = Path(__file__).parents[3]


def relative_error(value, truth):
    assert value.isfinite().all()
    return ((value.detach().cpu().double() - truth).norm() / truth.norm()).item()


def convolution_and_gradients(x, w, g, stride):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = F.conv2d(x, w, None, stride, w.shape[2] // 2)
    y.backward(g)
    return y, x.grad, w.grad


def cases(convolutions, products, dtype):
    """{name: (function of tensors, tensors)} for (images, channels, edge, outputs, kernel, stride) and (m, n, k)."""
    generator = torch.Generator().manual_seed(0)

    def values(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)

    result = {}
    for images, channels, edge, outputs, kernel, stride in convolutions:
        out = (edge + kernel // 2 * 2 - kernel) // stride + 1
        tensors = (
            values(images, channels, edge, edge),
            values(outputs, channels, kernel, kernel),
            values(images, outputs, out, out),
        )
        result[f"conv {tuple(tensors[0].shape)} {tuple(tensors[1].shape)}/{stride}"] = (
            lambda x, w, g, s=stride: convolution_and_gradients(x, w, g, s),
            tensors,
        )
    for m, n, k in products:
        result[f"mm {m} {n} {k}"] = (
            lambda a, b: (a @ b, a.t().contiguous().t() @ b.t().contiguous().t()),
            (values(m, k), values(k, n)),
        )
    return result


def errors(device, convolutions, products, dtype):
    """{name: [worst error on the device, worst error of the CPU]} of each case's results."""
    found = {}
    for name, (function, tensors) in cases(convolutions, products, dtype).items():
        truth = function(*(t.double() for t in tensors))
        found[name] = [
            max(map(relative_error, function(*(t.to(where) for t in tensors)), truth)) for where in (device, "cpu")
        ]
    return found


def answer_of(file, **variables):
    """What `python file` prints as JSON in its last line, run with these variables and without fallbacks."""
    variables = os.environ | {"TORCH_OCL_FALLBACK": "error"} | variables
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT), variables.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, file], env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
