"""Mixed precision: autocast with float16 and a GradScaler, or with bfloat16, beside float32.

python examples/mixed_precision.py [--steps 40]
"""

import argparse
import contextlib

import torch
import torch.nn.functional as F


def spirals(count, generator):
    """Points of two intertwined spirals and which of them each belongs to."""
    label = torch.randint(2, (count,), generator=generator)
    angle = torch.rand(count, generator=generator) * 3 * torch.pi
    radius = angle / (3 * torch.pi)
    turned = angle + label * torch.pi
    return torch.stack([radius * turned.cos(), radius * turned.sin()], 1), label


def train(device, dtype, steps):
    """Accuracy after `steps` steps, number of steps that the scaler skipped."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    layers = [
        torch.nn.Linear(2, 128),
        torch.nn.SiLU(),
        torch.nn.Linear(128, 128),
        torch.nn.SiLU(),
        torch.nn.Linear(128, 2),
    ]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)  # bfloat16 has float32's range and needs none
    skipped = 0
    for _ in range(steps):
        x, y = (part.to(device) for part in spirals(512, generator))
        optimizer.zero_grad()
        with torch.autocast(device, dtype) if dtype is not torch.float32 else contextlib.nullcontext():
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
    x, y = (part.to(device) for part in spirals(2000, generator))
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item(), skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        accuracy, skipped = train(options.device, dtype, options.steps)
        print(f"{str(dtype)[6:]:10} accuracy {accuracy:.3f}, {skipped} steps skipped by the scaler")


if __name__ == "__main__":
    main()
