"""Time of the first training step in a fresh process: cold (empty program cache) and warm; also peak memory of
training.

`python -m benchmarks.first_step MODEL DEVICE` is what the children run; it prints one JSON line.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def measure(name, device, steps=2):
    import torch

    import torch_ocl  # noqa: F401  registers `ocl` where autoload is off

    from .models import NETWORKS

    network = NETWORKS[name]
    torch.manual_seed(0)
    model = network.build().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    batch = network.batch(network.batch_size, network.size, 0)
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = network.loss(model, *(part.to(device) for part in batch))
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    facts = {"first": seconds[0], "second": seconds[1]}
    if device == "ocl":
        compiled, loaded = torch.ocl.build_counts()
        facts |= {"peak_bytes": torch.ocl.max_memory_allocated(), "compiled": compiled, "loaded": loaded}
    return facts


def _child(name, device, environment):
    command = [sys.executable, "-m", "benchmarks.first_step", name, device]
    answer = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if answer.returncode:
        return {
            "error": answer.stderr.strip().splitlines()[-1]
            if answer.stderr.strip()
            else f"exit status {answer.returncode}"
        }
    return json.loads(answer.stdout.splitlines()[-1])


def cold_and_warm(name):
    """{"cpu", "ocl cold", "ocl warm"}: the drivers' own caches are emptied as well."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = {
            "TORCH_OCL_CACHE_DIR": f"{folder}/torch_ocl",
            "POCL_CACHE_DIR": f"{folder}/pocl",
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        os.makedirs(f"{folder}/pocl")
        return {
            "cpu": _child(name, "cpu", {}),
            "ocl cold": _child(name, "ocl", fresh),
            "ocl warm": _child(name, "ocl", fresh),
        }


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:3])))
