"""How many threads run kernels, where they may run, and what the doctor says about it."""

import functools
import os

import pytest
import torch

import fresh_process

ALLOWED = os.sched_getaffinity(0)
LIMITS = ("TORCH_OCL_HOST_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES")


run = functools.partial(fresh_process.run, without=LIMITS)


# The number of threads, and the processors that those of the pool may run on.
THREADS = """
import os, torch, torch_ocl
x = torch.rand(1 << 22, device="ocl")
(x * 2 + 1).sum().item()
masks = set()
for task in os.listdir("/proc/self/task"):
    if open(f"/proc/self/task/{task}/comm").read().strip() == "ocl-host":
        masks.add(frozenset(os.sched_getaffinity(int(task))))
print(torch.ocl.get_device_properties().compute_units, [sorted(mask) for mask in masks])
"""


@pytest.fixture
def own_pool(device):
    if torch.ocl.get_device_properties().is_gpu or os.environ["TORCH_OCL_HOST_THREADS"] == "0":
        pytest.skip("the threads are the driver's")


@pytest.mark.parametrize(
    "bound", [{"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "threads"}, {"GOMP_CPU_AFFINITY": "0-4095"}]
)
def test_a_main_thread_that_openmp_bound_costs_no_processors(own_pool, bound):
    output, errors = run("-c", THREADS, **bound)
    count, masks = output.split(" ", 1)
    assert int(count) == len(ALLOWED)
    union = set().union(*eval(masks))
    # The main thread is bound to the first processor. One that wakes the others keeps them off its own.
    assert union <= ALLOWED and (union & (ALLOWED - {min(ALLOWED)}) or len(ALLOWED) == 1), output
    assert "kernels on CPU devices run on 1 of" not in errors


def test_one_processor_of_several_is_told(own_pool):
    output, errors = run("-c", THREADS, processors=[min(ALLOWED)])
    assert output.split()[0] == "1"
    told = errors.count("kernels on CPU devices run on 1 of")
    assert told == (1 if os.sysconf("SC_NPROCESSORS_ONLN") > 1 else 0), errors
    _, errors = run("-c", THREADS, processors=[min(ALLOWED)], TORCH_OCL_HOST_THREADS="1")
    assert "run on 1 of" not in errors


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,2"}, 1),
        ({"OMP_NUM_THREADS": "4096"}, len(ALLOWED)),
        ({"OMP_NUM_THREADS": "1", "TORCH_OCL_HOST_THREADS": "3"}, 3),
        ({"POCL_MAX_PTHREAD_COUNT": "1"}, 1),
    ],
)
def test_variables_limit_the_threads(own_pool, variables, threads):
    output, errors = run("-c", THREADS, **variables)
    assert int(output.split()[0]) == threads
    assert "run on 1 of" not in errors


# Hundredths of a second with kernels that take long: processor time of all threads and of the busiest, time that went
# by. The main thread runs kernels while it waits, so that no thread alone need have most of the time.
SET_NUM_THREADS = """
import os, time, torch, torch_ocl
x = torch.rand(1 << 24, device="ocl")
def busy():
    for _ in range(3): x.erfinv().sum().item()
    clocks = {}
    def read():
        return {t: sum(map(int, open(f"/proc/self/task/{t}/stat").read().rsplit(")", 1)[1].split()[11:13]))
                for t in os.listdir("/proc/self/task")}
    before, start = read(), time.perf_counter()
    for _ in range(40): x.erfinv()
    torch.ocl.synchronize()
    passed, after = time.perf_counter() - start, read()
    return sorted((after[t] - before.get(t, 0) for t in after), reverse=True), int(100 * passed)
torch.set_num_threads(NUMBER)
times, passed = busy()
print(sum(times), times[0], passed)
"""


def test_set_num_threads_limits_launches_after_it(own_pool):
    code = SET_NUM_THREADS.replace("NUMBER", "1")
    total, _, passed = map(int, run("-c", code, TORCH_OCL_CALL_KERNELS="1")[0].split())
    assert total < 1.5 * passed + 5  # one thread at a time
    if len(ALLOWED) > 1:
        total, most, _ = map(int, run("-c", SET_NUM_THREADS.replace("NUMBER", "64"))[0].split())
        assert most < 0.75 * total


def test_the_doctor_says_what_limits_the_threads():
    output, _ = run("-m", "torch_ocl", OMP_NUM_THREADS="1")
    assert "because of OMP_NUM_THREADS" in output
    assert f"{len(ALLOWED)} for this process" in output
    assert "control group's quota" in output and "available" in output


def test_copies_that_are_waited_for_are_shared_by_the_pool(own_pool):
    host, small = torch.rand(1 << 20), torch.rand(1 << 12)
    target, little = torch.empty_like(host, device="ocl"), torch.empty_like(small, device="ocl")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    ) as profile:
        target.copy_(host)
        little.copy_(small)
        back = target.cpu()
        torch.ocl.synchronize()
    names = [event.name for event in profile.events()]
    # A copy by the waiting thread leaves no event.
    assert names.count("Memcpy HtoD") >= 1 and names.count("Memcpy DtoH") == 1, names
    assert torch.equal(back, host) and torch.equal(little.cpu(), small)
