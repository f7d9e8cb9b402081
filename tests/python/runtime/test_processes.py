"""Data loading workers and torch.multiprocessing beside a device that is in use."""

import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

feature = pytest.mark.feature


class Squares(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.tensor([float(i), float(i * i)]), {"index": i, "name": str(i)}


@feature("Data loading")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(device, method):
    torch.ones(2, device=device)
    loader = DataLoader(
        Squares(),
        4,
        num_workers=2 if method == "fork" else 1,
        pin_memory=True,
        persistent_workers=True,
        multiprocessing_context=method,
        prefetch_factor=1,
    )
    for _ in range(2):  # the second epoch goes through the same workers
        total = 0.0
        for values, others in loader:
            assert values.is_pinned() and others["index"].is_pinned() and isinstance(others["name"][0], str)
            total += values.to(device, non_blocking=True)[:, 1].sum().item()
        assert total == sum(i * i for i in range(12))


@feature("Data loading")
def test_pin_memory_device(device):
    batch, _ = next(iter(DataLoader(Squares(), 4, pin_memory=True, pin_memory_device="ocl")))
    assert batch.is_pinned()


SCRIPT = """
import sys, torch, torch_ocl
import torch.multiprocessing as mp

def child(queue, back):
    kind, tensor, parameter = queue.get(timeout=300)
    back.put((str(tensor.device), tensor.sum().item(), type(parameter).__name__, parameter.requires_grad))
    queue.get(timeout=300)  # keeps the shared memory of the first message until the parent is done

def forked(queue, back):
    try: queue.get(timeout=300)
    except RuntimeError as error: back.put(str(error))

if __name__ == "__main__":
    x = torch.arange(5.0, device="ocl")
    context = mp.get_context(sys.argv[1])
    queue, back = context.Queue(), context.Queue()
    if sys.argv[1] == "spawn":
        process = context.Process(target=child, args=(queue, back)); process.start()
        queue.put(("tensors", x, torch.nn.Parameter(torch.ones(2, device="ocl"))))
        print(*back.get(timeout=300)); queue.put(None)
    else:
        process = context.Process(target=forked, args=(queue, back)); process.start()
        queue.put(x); print(back.get(timeout=300))
    process.join()
    print(process.exitcode, (x + 1).sum().item())
"""


@feature("Sharing between processes")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_tensors_in_a_queue(tmp_path, method):
    """They arrive as copies in spawned processes; a forked one gets the error that says to spawn."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), method], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.strip().splitlines()
    assert (
        first == "ocl:0 10.0 Parameter True"
        if method == "spawn"
        else "Cannot re-initialize ocl in forked subprocess" in first
    )
    assert last == "0 15.0" and "arrives there as a copy" in done.stderr


@feature("Sharing between processes")
def test_cpu_tensors_in_shared_memory(device):
    import torch.multiprocessing as mp

    x = torch.zeros(4).share_memory_()
    torch.ones(2, device=device)
    process = mp.get_context("fork").Process(target=x.fill_, args=(3,))
    process.start()
    process.join()
    assert process.exitcode == 0 and x.to(device).sum().item() == 12
