"""What a rank of deaths.py does: steps until one of the others dies. It says so on its standard output and stays until
its standard input ends, so that no rank finds out by another one's end."""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import torch_ocl  # noqa: F401  loads the device


def data_parallel():
    """A step of DDP with several buckets."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(6)]).to("ocl")
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.07)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.rand(64, 128, device="ocl")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def collectives():
    """Kinds that travel differently; some are waited for late, as FSDP and pipelines do."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, parts = torch.rand(size * 4096, device="ocl"), torch.empty(size * size * 4096, device="ocl")
    strided = torch.rand(512, 64, device="ocl")[:, 3]

    def step():
        works = [dist.all_reduce(x.clone(), async_op=True), dist.all_gather_into_tensor(parts, x, async_op=True)]
        part = torch.empty(4096, device="ocl")
        dist.reduce_scatter_tensor(part, x)
        dist.broadcast(strided, 0)
        dist.all_to_all_single(torch.empty_like(x), x)
        right, left = (rank + 1) % size, (rank - 1) % size
        messages = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, torch.empty_like(x), left)]
        works += dist.batch_isend_irecv(messages)
        for work in works:
            work.wait()
        dist.barrier()
        return part.sum().item()

    return step


KINDS = {function.__name__: function for function in (data_parallel, collectives)}


def store(file):
    """The store whose port `file` says; where there is no such file, rank 0 has the store."""
    if not file.exists() and os.environ["RANK"] == "0":
        own = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        file.with_suffix(".new").write_text(str(own.port))
        file.with_suffix(".new").rename(file)
        return own
    while not file.exists():
        time.sleep(0.05)
    return dist.TCPStore("127.0.0.1", int(file.read_text()), is_master=False)


def main():
    kind, timeout, file = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own = store(file)
    own.set(f"here {rank}", "")
    own.wait([f"here {other}" for other in range(size)], timedelta(seconds=180))  # slow starts are no deaths
    dist.init_process_group(store=own, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
    step = KINDS[kind]()
    for _ in range(3):
        step()
    dist.barrier()
    begin = time.monotonic()
    step()
    torch.ocl.synchronize()
    assert torch.ocl.fallbacks() == {}, torch.ocl.fallbacks()
    print("step", time.monotonic() - begin, flush=True)
    try:
        while True:
            step()
    except Exception as error:
        print("error", type(error).__name__, str(error).splitlines()[0], flush=True)
        sys.stdin.read()
        if os.environ.get("TEST_DESTROY"):
            dist.destroy_process_group()
        raise


if __name__ == "__main__":
    main()
