"""Copying the next batch while the current one is computed: pinned memory, a second stream, and events.

    python examples/prefetch.py [--steps 50]

Prints the time of the same training loop without and with prefetching. On a device with its own memory the copies
disappear behind the kernels; on a CPU both share the same cores and memory, and there is little to win.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    """Iterates over a loader's batches on the device.

    Every batch is copied on a stream of its own while the one before is in use.
    """

    def __init__(self, loader, device):
        self.loader, self.device, self.stream = loader, torch.device(device), torch.Stream(device)

    def _copy(self, batch):
        with self.stream:
            return [part.to(self.device, non_blocking=True) for part in batch]

    def __iter__(self):
        batches = iter(self.loader)
        coming = self._copy(next(batches))
        while coming is not None:
            torch.accelerator.current_stream().wait_stream(self.stream)  # the copy has ended before the kernels start
            now = coming
            for part in now:
                part.record_stream(torch.accelerator.current_stream())  # its memory is not reused before they end
            batch = next(batches, None)
            coming = None if batch is None else self._copy(batch)
            yield now


def train(batches, steps, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    total, start = torch.zeros((), device=device), time.perf_counter()
    for step, (x, y) in enumerate(batches):
        if step == steps:
            break
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.detach()  # stays on the device: item() would wait
    torch.accelerator.synchronize()
    return total.item() / steps, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    torch.manual_seed(0)
    images = options.steps * options.batch
    data = TensorDataset(torch.rand(images, 784), torch.randint(10, (images,)))
    plain = DataLoader(data, options.batch)
    pinned = DataLoader(data, options.batch, pin_memory=True)
    train(plain, 2, options.device)  # programs are compiled here
    loss, seconds = train(plain, options.steps, options.device)
    prefetched_loss, prefetched_seconds = train(Prefetcher(pinned, options.device), options.steps, options.device)
    print(f"plain       {seconds:.2f} s, mean loss {loss:.5f}")
    print(f"prefetched  {prefetched_seconds:.2f} s, mean loss {prefetched_loss:.5f}")


if __name__ == "__main__":
    main()
