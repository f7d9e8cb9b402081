"""Products and convolutions of bfloat16: no further from float64 than twice the CPU's own error, with the processor's products of pairs and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

ROOT = Path(__file__).parents[3]
# images, channels, edge, outputs, kernel, stride: sums of odd length, several slabs, chunks across images, sub-grids of a stride, a stem
CONVOLUTIONS = [
    (3, 65, 13, 37, 1, 1), (2, 1037, 7, 24, 1, 1), (2, 48, 16, 40, 1, 2), (2, 31, 15, 33, 3, 2), (2, 32, 14, 64, 3, 2), (2, 17, 20, 18, 3, 1),
    (2, 3, 37, 16, 7, 2),
]  # fmt: skip
PRODUCTS = [(101, 77, 301), (33, 65, 801), (64, 300, 63)]


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
        return torch.randn(*shape, generator=generator).bfloat16()

    result = {}
    for images, channels, edge, outputs, kernel, stride in CONVOLUTIONS:
        out = (edge + kernel // 2 * 2 - kernel) // stride + 1
        tensors = values(images, channels, edge, edge), values(outputs, channels, kernel, kernel), values(images, outputs, out, out)
        result[f"conv {tuple(tensors[0].shape)} {tuple(tensors[1].shape)}/{stride}"] = lambda x, w, g, s=stride: convolution_and_gradients(x, w, g, s), tensors
    for m, n, k in PRODUCTS:
        result[f"mm {m} {n} {k}"] = lambda a, b: (a @ b, a.t().contiguous().t() @ b.t().contiguous().t()), (values(m, k), values(k, n))
    return result


def errors(device):
    """{name: [error on the device, error of the CPU], ...}, worst of each case's results."""
    found = {}
    for name, (function, tensors) in cases().items():
        truth = function(*(t.double() for t in tensors))
        pairs = [[relative_error(value, exact) for value, exact in zip(function(*(t.to(where) for t in tensors)), truth)] for where in (device, "cpu")]
        found[name] = [max(pairs[0]), max(pairs[1])]
    return found


def check(found):
    wrong = {name: (ours, native) for name, (ours, native) in found.items() if not ours <= 2 * native}
    assert len(found) == len(CONVOLUTIONS) + len(PRODUCTS) and not wrong


def test_errors_are_the_cpus(device, no_fallback):
    check(errors(device))


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_with_and_without_the_processors_products(device, wanted):
    if not torch.ocl.get_device_properties().bfloat16_pairs:
        pytest.skip("the device has none: the other test ran without")
    variables = os.environ | {"TORCH_OCL_BFLOAT16_PAIRS": wanted, "TORCH_OCL_FALLBACK": "error"}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT), variables.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, __file__], env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["preferred"] is (wanted == "1")
    check(answer["errors"])


def test_nan_stays_in_its_row(device, no_fallback):
    """The element behind an odd sum is another row's; the lane beside it in the pair must not matter."""
    a, b = torch.ones(40, 33), torch.ones(33, 50)
    a[7, 0] = float("nan")
    b[:, 3] = float("inf")
    result = (a.to(device, torch.bfloat16) @ b.to(device, torch.bfloat16)).cpu().float()
    assert torch.equal(result.nan_to_num(nan=-1.0), (a @ b).nan_to_num(nan=-1.0))


if __name__ == "__main__":
    import torch_ocl  # noqa: F401

    print(json.dumps({"preferred": torch.ocl.get_device_properties().quick_bfloat16_pairs, "errors": errors("ocl")}))
