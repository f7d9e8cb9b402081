"""Unlike devices train one model together: each rank takes as much of a batch as its device is quick.

    TORCH_OCL_VISIBLE_DEVICES=pocl,intel torchrun --nproc-per-node 2 examples/heterogeneous.py

Rank 0 takes ocl:0 and rank 1 ocl:1, of any two vendors. Each rank measures its speed, the batch is split in these
proportions, and each rank weights its loss so that the mean of the gradients, which DistributedDataParallel forms, is
the gradient of the joined batch. In the end rank 0 trains alone on the joined batches to show it.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8))


def batches(steps, size):
    generator = torch.Generator().manual_seed(1)
    directions = torch.randn(64, 8, generator=generator)
    for _ in range(steps):
        x = torch.randn(size, 64, generator=generator)
        yield x, (x @ directions).argmax(1)


def samples_per_second(size, repeats=5):
    """Of this rank's device, for the forward and backward pass; the first ones compile kernels."""
    model, best = network().to("ocl"), 0.0
    for x, y in batches(repeats, size):
        start = time.perf_counter()
        nn.functional.cross_entropy(model(x.to("ocl")), y.to("ocl")).backward()
        torch.ocl.synchronize()
        best = max(best, size / (time.perf_counter() - start))
    return best


def shares(size):
    """How many samples of a batch each rank takes: in proportion to its speed, at least one, together `size`."""
    speeds = [None] * dist.get_world_size()
    dist.barrier()  # ranks on one processor are to disturb each other here as they will later
    dist.all_gather_object(speeds, samples_per_second(size // len(speeds)))
    result = [max(1, int(size * speed / sum(speeds))) for speed in speeds]
    result[speeds.index(max(speeds))] += size - sum(result)
    return result


def train(model, begin, count, weight, options):
    """Trains on `count` samples of each batch from `begin` on; their mean loss counts `weight` times."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for all_x, all_y in batches(options.steps, options.batch):
        x, y = (part[begin : begin + count].to("ocl") for part in (all_x, all_y))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y) * weight
        loss.backward()
        optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256, help="samples of all ranks in a step")
    parser.add_argument("--shares", help="samples of each rank, as 192,64; measured otherwise")
    options = parser.parse_args()
    torch.ocl.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    split = [int(part) for part in options.shares.split(",")] if options.shares else shares(options.batch)
    if len(split) != ranks or sum(split) != options.batch or min(split) < 1:
        raise SystemExit(f"--shares {options.shares} does not split {options.batch} samples among {ranks} ranks")
    device = f"ocl:{torch.ocl.current_device()} ({torch.ocl.get_device_properties().platform_name})"
    devices = [None] * ranks
    dist.all_gather_object(devices, device)

    model = nn.parallel.DistributedDataParallel(network().to("ocl"))
    # DDP divides the sum of the gradients by the number of ranks; a rank's mean must count by its share instead.
    loss = train(model, sum(split[:rank]), split[rank], split[rank] * ranks / options.batch, options)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    if rank == 0:
        for name, count in zip(devices, split, strict=True):
            print(f"{name}: {count} of {options.batch} samples")
        alone = network().to("ocl")
        expected = train(alone, 0, options.batch, 1.0, options)
        pairs = zip(model.parameters(), alone.parameters(), strict=True)
        largest = max((a - b).abs().max().item() for a, b in pairs)
        print(f"loss {loss.item():.4f}, of one process {expected.item():.4f}")
        print(f"{'agree' if largest < 1e-4 else 'DISAGREE'} with one process: {largest:.1e} between weights")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
