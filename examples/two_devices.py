"""A network split over two OpenCL devices, of any two vendors: the first half on ocl:0, the second on ocl:1.

    TORCH_OCL_VISIBLE_DEVICES=pocl,intel python examples/two_devices.py

With one device both halves run there.
"""

import argparse

import torch


class Split(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.devices = first, second
        self.head = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU()).to(first)
        self.tail = torch.nn.Linear(64, 5).to(second)

    def forward(self, x):
        return self.tail(self.head(x.to(self.devices[0])).to(self.devices[1]))  # autograd copies the gradient back


def train(first, second, steps):
    torch.manual_seed(0)
    model = Split(first, second)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x, y = torch.rand(64, 32, generator=generator), torch.randint(5, (64,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y.to(second))
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    count = torch.ocl.device_count()
    for i in range(count):
        print(f"ocl:{i}  {torch.ocl.get_device_name(i)} ({torch.ocl.get_device_properties(i).platform_name})")
    devices = "ocl:0", f"ocl:{min(1, count - 1)}"
    split, alone = train(*devices, options.steps), train("cpu", "cpu", options.steps)
    print(f"{' and '.join(devices)}: loss {split:.6f}; cpu: loss {alone:.6f}")
    print("agree" if abs(split - alone) < 1e-4 else "DISAGREE")


if __name__ == "__main__":
    main()
