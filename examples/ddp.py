"""Data-parallel training: every rank computes on its part of each batch, DistributedDataParallel averages gradients.

    torchrun --nproc-per-node 2 examples/ddp.py

Nothing names the backend: init_process_group() finds the one for `ocl`. Ranks of one machine share its devices and its
processors. In the end rank 0 trains alone on the joined batches, which must give the same weights.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn


def batches(steps, size):
    """Images and labels that every rank could compute, so that the parts join into the same batches."""
    generator = torch.Generator().manual_seed(1)
    directions = torch.rand(10, 3 * 16 * 16, generator=generator) - 0.5
    for _ in range(steps):
        images = torch.rand(size, 3, 16, 16, generator=generator)
        yield images, (images.flatten(1) @ directions.t()).argmax(1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 10),
    )


def train(model, rank, ranks, options):
    """Trains on every `ranks`-th image of each batch from the `rank`-th one on; returns the last loss of this part."""
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    for all_images, all_labels in batches(options.steps, options.batch):
        images, labels = all_images[rank::ranks].to("ocl"), all_labels[rank::ranks].to("ocl")
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images of all ranks in a step")
    options = parser.parse_args()
    torch.ocl.set_device(int(os.environ["LOCAL_RANK"]))  # ranks share devices where there are fewer of them
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if options.batch % ranks:
        raise SystemExit(f"--batch {options.batch} has no equal parts for {ranks} ranks")

    model = nn.parallel.DistributedDataParallel(network().to("ocl"))
    loss = train(model, rank, ranks, options)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    if rank == 0:
        alone = network().to("ocl")
        train(alone, 0, 1, options)
        pairs = zip(model.parameters(), alone.parameters(), strict=True)
        largest = max((a - b).abs().max().item() for a, b in pairs)
        print(f"{ranks} ranks, {torch.ocl.get_device_name()}: loss {loss.item():.4f}")
        print(f"{'agree' if largest < 1e-4 else 'DISAGREE'} with one process: {largest:.1e} between weights")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
