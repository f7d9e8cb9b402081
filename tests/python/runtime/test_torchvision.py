"""`import torchvision` beside a PyTorch that torchvision's library of operators was not built for."""

import importlib.util
import subprocess
import sys

import pytest

CODE = """
import torch, torch_ocl, torchvision
image = torch.rand(1, 2, 8, 8, device="ocl", requires_grad=True)
boxes = [torch.tensor([[0.0, 0, 4, 4], [1, 2, 7, 8]], device="ocl")]
torchvision.ops.roi_align(image, boxes, 2).sum().backward()
assert image.grad.device.type == "ocl" and image.grad.cpu().abs().sum() > 1
assert torchvision.ops.nms(boxes[0], torch.tensor([0.5, 0.7], device="ocl"), 0.9).tolist() == [1, 0]
assert not torch.ocl.fallbacks()
try:
    print(torchvision.ops.nms(boxes[0].cpu(), torch.tensor([0.5, 0.7]), 0.9).tolist())
except NotImplementedError as error:  # where the library does not load
    print(str(error)[:37])
"""


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_operators_and_gradients(device):
    done = subprocess.run([sys.executable, "-c", CODE], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "autograd kernel was not registered" not in done.stderr
    assert done.stdout.strip() in ("[1, 0]", "Could not run 'torchvision::nms' with")
