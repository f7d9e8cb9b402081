"""Fully sharded training (FSDP2): each rank keeps its part of the parameters, gradients and optimizer states.

    torchrun --nproc-per-node 2 examples/fsdp.py

Trains a small transformer with parameters in bfloat16 for computing and float32 for keeping, writes a distributed
checkpoint half-way, and trains the second half once more from it, which must give the same loss.
"""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

VOCABULARY, LENGTH = 64, 32


class Model(nn.Module):
    def __init__(self, width=64, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).float()


def sharded(mesh):
    torch.manual_seed(0)
    model = Model().to("ocl")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, torch.optim.AdamW(model.parameters(), 3e-3)


def train(model, optimizer, rank, first, last):
    """Teaches the model to repeat its input; steps first to last - 1. Returns the last loss, the mean of all ranks."""
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 * step + rank)
        tokens = torch.randint(VOCABULARY, (8, LENGTH), generator=generator).to("ocl")
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpoint", help="folder that all ranks share; a temporary one otherwise")
    options = parser.parse_args()
    torch.ocl.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    rank, ranks, half = dist.get_rank(), dist.get_world_size(), options.steps // 2
    mesh = init_device_mesh("ocl", (ranks,))
    folder = [options.checkpoint or (tempfile.mkdtemp() if rank == 0 else None)]
    dist.broadcast_object_list(folder)

    model, optimizer = sharded(mesh)
    train(model, optimizer, rank, 0, half)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder[0])
    loss = train(model, optimizer, rank, half, options.steps)

    model, optimizer = sharded(mesh)
    weights, states = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder[0])
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=states)
    again = train(model, optimizer, rank, half, options.steps)
    if rank == 0:
        own = sum(parameter.to_local().numel() for parameter in model.parameters())
        total = sum(parameter.numel() for parameter in model.parameters())
        print(f"{ranks} ranks: rank 0 keeps {own} of {total} parameters; loss {loss:.4f}")
        print(f"{'agree' if loss == again else 'DISAGREE'}: {again:.4f} from the checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
