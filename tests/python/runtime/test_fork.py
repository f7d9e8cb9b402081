"""Processes: a forked child gets CUDA's error and does not hang; DataLoader workers are not disturbed; spawn works."""

import os

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def answer_of_forked_child(function):
    """What `function` printed or raised in a forked child, or "hang"."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    import select

    ready, _, _ = select.select([read], [], [], 30)
    text = os.read(read, 1 << 16).decode() if ready else "hang"
    os.close(read)
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return text


@pytest.mark.feature("Lazy initialisation and forks")
@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(2, device="ocl"),
        lambda: torch.ones(2).to("ocl"),
        torch.accelerator.synchronize,
        torch.ocl.synchronize,
        torch.ocl.Stream,
        lambda: torch.accelerator.current_stream().synchronize(),
    ],
    ids=["ones", "to", "accelerator.synchronize", "ocl.synchronize", "Stream", "current_stream"],
)
def test_forked_child_gets_an_error(device, use):
    torch.ones(2, device=device)
    assert "Cannot re-initialize ocl in forked subprocess" in answer_of_forked_child(use)
    assert torch.ones(2, device=device).sum().item() == 2  # the parent goes on


def test_inherited_tensor_gets_an_error(device):
    tensor = torch.ones(2, device=device)
    error = "Cannot re-initialize OCL in forked subprocess"

    def use():
        return (tensor + 1).cpu()

    assert error in answer_of_forked_child(use)
    assert error in answer_of_forked_child(tensor.cpu)
    assert tensor.sum().item() == 2


def test_forks_while_kernels_run_and_are_loaded(device):
    """The child can load libraries, and the parent's commands are all executed, whatever the device's threads were
    doing."""
    x = torch.linspace(0.1, 0.9, 1000, device=device)
    functions = [torch.asinh, torch.acosh, torch.lgamma, torch.erfc, torch.sinc, torch.digamma, torch.expm1, torch.i0]
    for function in functions:
        wide = x.double() + 1  # the first launch of its code, and work behind it
        for _ in range(20):
            result = function(wide)
        assert answer_of_forked_child(lambda: __import__("_codecs_jp").__name__) == "_codecs_jp"
        torch.testing.assert_close(result.cpu(), function(wide.cpu()))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pinned", [False, True])
def test_data_loader(device, workers, pinned):
    torch.ones(2, device=device)
    data = TensorDataset(torch.arange(64.0).view(32, 2), torch.arange(32))
    loader = DataLoader(data, 4, num_workers=workers, pin_memory=pinned)
    total = sum(values.to(device, non_blocking=pinned).sum().item() for values, _ in loader)
    assert total == sum(range(64))


def test_torch_load_in_a_spawned_process(device, tmp_path):
    import subprocess
    import sys

    torch.save({"x": torch.arange(5, device=device)}, tmp_path / "x.pt")
    code = f"import torch, torch_ocl; x = torch.load({str(tmp_path / 'x.pt')!r})['x']; print(x.device, x.sum().item())"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["ocl:0", "10"]
