"""Training that survives the death of a rank: torchrun starts all ranks again, and they go on from the last checkpoint.

    torchrun --nproc-per-node 2 --max-restarts 3 examples/elastic.py checkpoints --dies-at 13

--dies-at kills the last rank before that step, once. Every rank looks for the last complete checkpoint when it starts;
the script needs nothing else. In the end the ranks train from the beginning without a break, which must give the same
losses.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


class Training:
    def __init__(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 16)).to("ocl")
        self.model = nn.parallel.DistributedDataParallel(network)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-3)
        self.losses = []
        torch.manual_seed(1 + dist.get_rank())  # dropout of this rank

    @property
    def steps(self):
        return len(self.losses)

    def step(self):
        generator = torch.Generator().manual_seed(1000 * self.steps + dist.get_rank())
        x = torch.rand(32, 64, generator=generator)
        x, labels = x.to("ocl"), x[:, :16].argmax(1).to("ocl")
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), labels)
        loss.backward()
        self.optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        self.losses.append(loss.item())

    def state(self):
        weights, states = get_state_dict(self.model, self.optimizer)
        return {
            "model": weights,
            "optimizer": states,
            "losses": self.losses,
            f"random {dist.get_rank()}": torch.ocl.get_rng_state(),
        }

    def save(self, folder):
        dcp.save(self.state(), checkpoint_id=folder / f"{self.steps:06}")

    def load(self, folder):
        """The last checkpoint, if there is one. Its metadata is written last: without it a folder is not complete."""
        complete = sorted(path.parent for path in folder.glob("*/.metadata"))
        last = [complete[-1] if complete else None]
        dist.broadcast_object_list(last)
        if last[0] is None:
            return
        state = self.state()
        state["losses"] = [0.0] * int(last[0].name)
        dcp.load(state, checkpoint_id=last[0])
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.losses = state["losses"]
        torch.ocl.set_rng_state(state[f"random {dist.get_rank()}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for checkpoints; all ranks share it")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5, help="steps from one checkpoint to the next")
    parser.add_argument("--dies-at", type=int, help="the step before which the last rank dies, in the first run")
    options = parser.parse_args()
    torch.ocl.set_device(int(os.environ["LOCAL_RANK"]))
    torch.use_deterministic_algorithms(True)
    dist.init_process_group()
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    training = Training()
    training.load(options.folder)
    if dist.get_rank() == 0:
        print(f"run {restarts + 1} begins with step {training.steps}", flush=True)
    while training.steps < options.steps:
        if training.steps == options.dies_at and restarts == 0 and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        training.step()
        if training.steps % options.every == 0:
            training.save(options.folder)

    whole = Training()
    while whole.steps < options.steps:
        whole.step()
    if dist.get_rank() == 0:
        said = "agree" if whole.losses == training.losses else "DISAGREE"
        print(f"{said}: loss {training.losses[-1]:.6f}, without a break {whole.losses[-1]:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
