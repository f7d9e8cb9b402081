"""Stopping and going on as if nothing had happened: model, optimizer, schedule, scaler and random state in one
checkpoint.

    python examples/resume.py [--steps 20]

Trains once without a break and once with one in the middle, in fresh objects, and compares the weights bit by bit.
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F


class Training:
    def __init__(self, device):
        self.device = device
        self.model = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 4)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.01)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100)
        self.scaler = torch.amp.GradScaler(device)

    def run(self, steps):
        for _ in range(steps):
            x, y = torch.rand(32, 16, device=self.device), torch.randint(4, (32,), device=self.device)
            self.optimizer.zero_grad()
            with torch.autocast(self.device, torch.float16):
                loss = F.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.schedule.step()

    def save(self, file):
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "schedule", "scaler")}
        torch.save(
            parts
            | {"random": torch.get_rng_state(), "device random": torch.get_device_module(self.device).get_rng_state()},
            file,
        )

    def load(self, file):
        checkpoint = torch.load(
            file, map_location="cpu", weights_only=True
        )  # works on a machine with other devices, too
        for name in ("model", "optimizer", "schedule", "scaler"):
            getattr(self, name).load_state_dict(checkpoint[name])
        torch.set_rng_state(checkpoint["random"])
        torch.get_device_module(self.device).set_rng_state(checkpoint["device random"])

    def weights(self):
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()]).cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    whole = Training(options.device)
    whole.run(options.steps)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        first = Training(options.device)
        first.run(options.steps // 2)
        first.save(Path(folder) / "checkpoint.pt")
        torch.manual_seed(999)
        second = Training(options.device)
        second.load(Path(folder) / "checkpoint.pt")
        second.run(options.steps - options.steps // 2)
    print(
        "same weights" if torch.equal(whole.weights(), second.weights()) else "DIFFERENT weights",
        f"after {options.steps} steps with and without a break",
    )


if __name__ == "__main__":
    main()
