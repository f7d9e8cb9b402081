"""Long runs: memory of the device and of the process stays as it is after the first steps."""

import gc
import resource
from pathlib import Path

import pytest
import torch
from torch import nn


def resident_bytes():
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("the resident size is read from /proc")
    return int(status.read_text().split()[1]) * resource.getpagesize()


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1),
        nn.Conv2d(16, 16, 3, groups=16, padding=1), nn.Flatten(), nn.Linear(16 * 8 * 8, 64), nn.LayerNorm(64),
        nn.GELU(), nn.Linear(64, 10))  # fmt: skip


@pytest.mark.feature("Long runs")
@pytest.mark.parametrize("steps", [200, pytest.param(2000, marks=pytest.mark.full)])
def test_training_steps_do_not_grow_memory(steps, device, no_fallback):
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler(device)
    losses, allocated, resident = [], [], []
    for step in range(steps):
        # batches of several sizes, as the last one of an epoch: blocks of the allocator are split and merged
        images, classes = torch.randn(8 + step % 3, 3, 16, 16), torch.randint(10, (8 + step % 3,))
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.to(device)), classes.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        if step % 10 == 9:
            gc.collect()
            allocated.append((torch.ocl.memory_allocated(), torch.ocl.memory_reserved()))
            resident.append(resident_bytes())
    assert torch.tensor(losses).isfinite().all()
    settled = len(allocated) // 4
    assert max(allocated[settled:]) == allocated[settled], "device memory grew"
    # The C library's heap may still settle; a leak of one small block per kernel launch would be megabytes over the
    # run.
    growth = resident[-1] - resident[settled]
    assert growth < 4 << 20, f"the process grew by {growth / 2**20:.1f} MiB in {steps - 10 * settled} steps"
