"""Training steps beside those of dlprimitives, the library that the earlier OpenCL backend was made of, on the same
driver.

Its program `dlprim_benchmark` (built from its own repository, with the networks in its docs/nets_for_benchmark) and our
benchmark run in turns, a process each. A step is zero_grad, forward, loss, backward and SGD, ours with momentum; theirs
also copies the batch (at most 10 MB) to the device and the loss back. Both processes read the same OCL_ICD_VENDORS.

`python -m benchmarks.dlprimitives NETWORK STEPS` is what our processes run; it prints one JSON line.
"""

import json
import re
import subprocess
import sys
import time
from statistics import median

from .models import NETWORKS

WARM = 1  # steps before those that are timed
STEPS = 2


def measure(name, steps):
    """[seconds of a training step on `ocl`]"""
    import torch

    import torch_ocl  # noqa: F401  registers `ocl` where autoload is off

    from .cases import network_case

    step = network_case(name, True).make(torch.device("ocl")).run
    seconds = []
    for _ in range(WARM + steps):
        begin = time.perf_counter()
        step()
        torch.ocl.synchronize()
        seconds.append(time.perf_counter() - begin)
    return seconds[WARM:]


def step_times(output):
    """Seconds of the timed steps in what dlprim_benchmark prints: "Step NUMBER TOTAL FORWARD BACKWARD" in milliseconds,
    numbers below 0 while warming up."""
    found = re.findall(r"^Step\s+(-?\d+)\s+([\d.]+)", output, re.MULTILINE)
    times = [float(total) / 1e3 for number, total in found if int(number) >= 0]
    if not times:
        raise RuntimeError(f"no steps in {output[-500:]!r}")
    return times


def output_of(command):
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError((answer.stderr + answer.stdout).strip()[-2000:])
    return answer.stdout


def beside(name, program, folder, device, rounds):
    """{"batch", "dlprimitives", "ocl"}: seconds of a training step, medians of `rounds` processes each; or {"error"}.
    `device`: PLATFORM:DEVICE as dlprimitives counts them."""
    batch_size = NETWORKS[name].batch_size
    theirs = [
        str(program),
        "-g",
        "-b",
        f"-w{WARM}",
        f"-i{STEPS}",
        f"-B{batch_size}",
        device,
        str(folder / f"{name}-b8.js"),
    ]
    ours = [sys.executable, "-m", "benchmarks.dlprimitives", name, str(STEPS)]
    seconds = {"dlprimitives": [], "ocl": []}
    try:
        for _ in range(rounds):
            seconds["dlprimitives"] += step_times(output_of(theirs))
            seconds["ocl"] += json.loads(output_of(ours).splitlines()[-1])
    except (RuntimeError, OSError) as error:
        return {"error": str(error)}
    return {"batch": batch_size} | {who: median(times) for who, times in seconds.items()}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
