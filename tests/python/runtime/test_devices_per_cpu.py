"""TORCH_OCL_DEVICES_PER_CPU: a CPU that is several devices, each with its share of the processors."""

import functools
import os
import re
from pathlib import Path

import pytest
import torch

import fresh_process
from distributed.launch import torchrun, write

ALLOWED = sorted(os.sched_getaffinity(0))
LIMITS = ("TORCH_OCL_HOST_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCH_OCL_DEVICES_PER_CPU")


@pytest.fixture(autouse=True)
def a_cpu(device):
    if torch.ocl.get_device_properties().is_gpu:
        pytest.skip("a GPU is not cut")


run = functools.partial(fresh_process.run, without=LIMITS)


FACTS = """
import os, torch, torch_ocl
facts = [torch.ocl.get_device_properties(i) for i in range(torch.ocl.device_count())]
for f in facts: print(f.part, f.compute_units, f.processors, f.numa_node, sep=";")
"""

USE = (
    FACTS
    + """
import threading
import torch.nn.functional as F

def train(device, losses):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 5))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters(): p.copy_(torch.rand(p.shape, generator=generator) * 0.1 - 0.05)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(5):
        x = torch.rand(16, 3, 12, 12, generator=generator).to(device)
        y = torch.randint(5, (16,), generator=generator).to(device)
        optimizer.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); optimizer.step()
        losses.append(loss.item())
    assert model[0].weight.device == torch.device(device)

names = ["ocl:0", "ocl:1", "cpu"]
losses = {name: [] for name in names}
threads = [threading.Thread(target=train, args=(name, losses[name])) for name in names]  # at the same time
for t in threads: t.start()
for t in threads: t.join()
for a, b, c in zip(*losses.values(), strict=True):
    assert abs(a - c) < 1e-5 and abs(b - c) < 1e-5, losses
assert len(losses["cpu"]) == 5

x = torch.arange(100_000.0, device="ocl:0").view(100, 1000)
for view in (x, x.t(), x[2:77, ::3], x.half()):
    y = view.to("ocl:1", non_blocking=True)
    assert y.device.index == 1 and torch.equal(y.cpu(), view.cpu()) and torch.equal(y.to("ocl:0"), view)
w = torch.ones(4, device="ocl:0", requires_grad=True)  # a graph over both
((w * 2).to("ocl:1") * 3).sum().backward()
assert w.grad.device.index == 0 and w.grad.tolist() == [6] * 4
s0, s1 = torch.Stream("ocl:0"), torch.Stream("ocl:1")
with s0: big = x.sin().exp().sum(1)
event = torch.ocl.Event(); event.record(s0); event.wait(s1)
s2 = torch.Stream("ocl:0"); event.wait(s2)
with s2: assert (big * 2).sum().isfinite()
with s1: assert torch.allclose(big.to("ocl:1").cpu(), x.cpu().sin().exp().sum(1), rtol=1e-5)
if os.fork() == 0:  # a fork waits for the commands of both
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
try: x + x.to("ocl:1"); raise SystemExit("no error")
except RuntimeError as error: assert "same device" in str(error), error
assert not torch.ocl.fallbacks(), torch.ocl.fallbacks()
masks = set()
for task in os.listdir("/proc/self/task"):
    if open(f"/proc/self/task/{task}/comm").read().strip() == "ocl-host":
        masks.add(tuple(sorted(os.sched_getaffinity(int(task)))))
print("masks", sorted(masks), "main", sorted(os.sched_getaffinity(0)))
"""
)


def rows(output):
    """[(part, compute units, processors, node)] of FACTS."""
    found = [line.split(";") for line in output.splitlines() if ";" in line]
    return [(part, int(units), processors_of(text), int(node)) for part, units, text, node in found]


def processors_of(text):
    ends = [item.split("-") for item in text.split(",") if item]
    return [each for end in ends for each in range(int(end[0]), int(end[-1]) + 1)]


def test_two_devices_on_one_cpu():
    output, errors = run("-c", USE, TORCH_OCL_DEVICES_PER_CPU="2")
    (part, units, first, node), (other, more, second, _) = found = rows(output)
    assert (part, other, node) == ("1 of 2", "2 of 2", -1), output
    if len(ALLOWED) > 1:
        assert "share one" not in errors
        assert sorted(first + second) == ALLOWED and abs(len(first) - len(second)) <= 1
        assert units + more == len(ALLOWED)
    masks = re.search(r"masks (.*) main (.*)", output)
    assert eval(masks[2]) == ALLOWED  # of a process that uses both, only the devices' own threads are bound
    for mask in eval(masks[1]):
        assert any(set(mask) <= set(row[2]) for row in found), output
    assert len(eval(masks[1])) >= min(2, len(ALLOWED)), output


def test_a_process_that_sees_one_of_them_is_bound_to_its_processors():
    code = FACTS + "torch.ones(3, device='ocl').sum().item(); print('main', sorted(os.sched_getaffinity(0)))"
    output, _ = run("-c", code, TORCH_OCL_DEVICES_PER_CPU="2", TORCH_OCL_VISIBLE_DEVICES="1")
    ((part, units, processors, _),) = rows(output)
    assert part == "2 of 2" and units == len(processors)
    assert eval(re.search(r"main (.*)", output)[1]) == processors


def test_the_drivers_own_threads_are_cut_by_the_driver():
    code = FACTS + "print([torch.full((7,), i, device=f'ocl:{i}').sum().item() for i in range(len(facts))])"
    whole = rows(run("-c", FACTS, TORCH_OCL_HOST_THREADS="0")[0])
    output, errors = run("-c", code, TORCH_OCL_HOST_THREADS="0", TORCH_OCL_DEVICES_PER_CPU="2")
    if whole[0][1] < 2:
        assert len(rows(output)) == len(whole) and "is not cut into 2 devices" in errors
        return
    assert [row[0] for row in rows(output)] == ["1 of 2", "2 of 2"] * len(whole), output
    assert sum(row[1] for row in rows(output)) == sum(row[1] for row in whole)
    assert str([0, 7]) in output


@pytest.mark.parametrize("value", ["65", "2.5"])
def test_other_values(value):
    output, errors = run("-c", FACTS, TORCH_OCL_DEVICES_PER_CPU=value)
    assert errors.count(f"TORCH_OCL_DEVICES_PER_CPU={value} is not accepted (1 to 64, or numa)") == 1, errors
    assert {row[0] for row in rows(output)} == {""}
    assert len(rows(output)) == torch.ocl.device_count()


def test_more_devices_than_processors():
    count = len(ALLOWED) + 1
    if count > 64:
        pytest.skip("there are more processors than devices of a CPU")
    output, errors = run("-c", FACTS, TORCH_OCL_DEVICES_PER_CPU=str(count))
    assert len(rows(output)) == count * torch.ocl.device_count()
    assert errors.count("several share one") == 1
    assert all(row[1] == 1 for row in rows(output))


def test_by_node():
    nodes = [path for path in Path("/sys/devices/system/node").glob("node[0-9]*") if path.is_dir()]
    lists = [set(processors_of((path / "cpulist").read_text().strip())) for path in nodes]
    count = sum(1 for each in lists if each & set(ALLOWED))
    if count > 1:
        output, _ = run("-c", FACTS, TORCH_OCL_DEVICES_PER_CPU="NUMA")
        assert len(rows(output)) == count * torch.ocl.device_count()
        assert all(row[3] >= 0 for row in rows(output))
        return
    report, _ = run("-m", "torch_ocl", TORCH_OCL_DEVICES_PER_CPU="NUMA")
    assert "on one NUMA node, so CPU devices are not cut" in report
    assert "everything works" in report and "part of the CPU" not in report


def test_the_doctor_shows_the_parts():
    report, _ = run("-m", "torch_ocl", TORCH_OCL_DEVICES_PER_CPU="2")
    for part in ("1 of 2, processors ", "2 of 2, processors "):
        assert part in report
    assert "everything works" in report


def test_compiled_programs_serve_all_of_them(tmp_path):
    code = """
import sys, torch, torch_ocl
x = torch.rand(1000, device=sys.argv[1])
print(x.sort().values.cumsum(0).sum().isfinite().item(), *torch.ocl.build_counts())
"""
    variables = {"TORCH_OCL_DEVICES_PER_CPU": "2", "TORCH_OCL_CACHE_DIR": str(tmp_path)}
    first = run("-c", code, "ocl:0", **variables)[0].split()
    second = run("-c", code, "ocl:1", **variables)[0].split()
    assert first[0] == second[0] == "True" and int(first[1]) > 0
    assert int(second[1]) == 0 and int(second[2]) > 0, (first, second)


RANKS = """
import os, torch, torch_ocl, torch.distributed as dist
torch.ocl.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("ocl")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.rand(8, 16, generator=generator).to("ocl")).square().mean().backward()
    optimizer.step()
mine = torch.cat([p.detach().flatten() for p in model.parameters()])
all = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(all, mine)
assert all[0].device.index == dist.get_rank() and torch.equal(all[0], all[1])
facts = torch.ocl.get_device_properties()
main = ",".join(map(str, sorted(os.sched_getaffinity(0))))
print(f"rank {facts.part};{facts.compute_units};{facts.processors};{main}\\n", end="", flush=True)
dist.barrier()
"""


def test_one_process_for_each(tmp_path):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    done = torchrun(write(tmp_path, RANKS), TORCH_OCL_DEVICES_PER_CPU="2")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"rank (\d of 2);(\d+);([\d,-]+);([\d,]+)", done.stdout)
    assert sorted(part for part, *_ in found) == ["1 of 2", "2 of 2"], done.stdout
    for _, units, processors, main in found:
        assert int(units) == len(processors_of(processors))
        assert processors_of(main) == processors_of(processors)
    if len(ALLOWED) > 1:
        assert sum(int(units) for _, units, *_ in found) == len(ALLOWED)
