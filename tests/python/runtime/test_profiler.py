"""torch.profiler: kernels with device time, joined to the operators that issued them."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tests.python.ops.kernels import SEEN

feature = pytest.mark.feature
kineto = pytest.mark.skipif(not SEEN, reason="this version's Kineto takes no PrivateUse1 plug-in")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def work(device, steps=1):
    x, w = torch.rand(300, 300, device=device), torch.rand(300, 300, device=device, requires_grad=True)
    (x @ w).sum().item()  # programs are built here

    def run():
        for _ in range(steps):
            with record_function("a step"):
                (x @ w).relu().sum().backward()
        return w.grad

    return run


@kineto
@feature("Profiler, Kineto")
def test_operators_have_the_time_of_their_kernels(device):
    run = work(device, 3)
    with profile(activities=BOTH) as result:
        run()
    rows = {row.key: row for row in result.key_averages()}
    product = rows["aten::mm"]
    assert (
        product.count % 6 == 0
        and product.self_device_time_total > 0
        and product.device_type == torch.autograd.DeviceType.CPU
    )
    kernels = [
        row
        for row in rows.values()
        if row.device_type == torch.autograd.DeviceType.PrivateUse1 and not row.is_user_annotation
    ]
    # every kernel belongs to an operator: the sums over both kinds of rows agree
    own = sum(row.self_device_time_total for row in kernels)
    joined = sum(
        row.self_device_time_total for row in rows.values() if row.device_type == torch.autograd.DeviceType.CPU
    )
    assert kernels and own > 0 and joined == pytest.approx(own, rel=1e-6)
    table = result.key_averages().table(sort_by="self_device_time_total")
    assert "Self OCL" in table and "aten::mm" in table and "clEnqueueNDRangeKernel" in table
    (mm_kernel,) = {
        kernel.name
        for event in result.events()
        if event.name == "aten::mm"
        for kernel in event.kernels
        if "gemm" in kernel.name
    } or {None}
    assert mm_kernel in rows


@kineto
@feature("Profiler, Kineto")
def test_kernels_lie_between_their_launch_and_the_synchronisation(device):
    run = work(device, 2)
    with profile(activities=BOTH) as result:
        run()
        torch.ocl.synchronize()
        with record_function("behind"):
            pass
    events = result.events()
    behind = next(
        event for event in events if event.name == "behind" and event.device_type == torch.autograd.DeviceType.CPU
    ).time_range.end
    kernels = [event for event in events if event.device_type == torch.autograd.DeviceType.PrivateUse1]
    products = [event for event in events if event.name == "aten::mm"]
    assert kernels and all(0 <= kernel.time_range.start <= kernel.time_range.end <= behind + 2000 for kernel in kernels)
    assert min(kernel.time_range.start for kernel in kernels) >= min(event.time_range.start for event in products)


@kineto
@feature("Profiler, Kineto")
def test_chrome_trace(device, tmp_path):
    run = work(device)
    file = tmp_path / "trace.json"
    with profile(activities=BOTH) as result:
        run()
    result.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    launches = [event for event in events if event.get("cat") == "privateuse1_runtime"]
    assert kernels and len(launches) >= len(kernels) and all(event["args"]["stream"] == 0 for event in kernels)
    starts = {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"}
    ends = {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "f"}
    assert {
        event["args"]["correlation"] for event in kernels
    } <= starts & ends  # an arrow from the launch to the kernel
    names = [event["args"]["name"] for event in events if event.get("name") == "process_name"]
    assert "ocl:0" in names


@kineto
@feature("Profiler, Kineto")
def test_schedule_memory_and_a_second_run(device, tmp_path):
    run, traces = work(device), []
    with profile(
        activities=BOTH,
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda p: traces.append(p.key_averages()),
        profile_memory=True,
    ) as result:
        for _ in range(4):
            run()
            result.step()
    assert len(traces) == 1 and {row.key: row for row in traces[0]}["aten::mm"].self_device_time_total > 0
    with profile(activities=BOTH, profile_memory=True) as result:
        x = torch.empty(1 << 20, device=device)
        del x
    rows = {row.key: row for row in result.key_averages()}
    assert rows["aten::empty"].self_device_memory_usage == 4 << 20 and rows["[memory]"].self_device_memory_usage == -(
        4 << 20
    )


@feature("Profiler, events")
def test_event_profiler(device):
    run = work(device, 2)
    with torch.autograd.profiler.profile(use_device="ocl", use_kineto=False) as result:
        run()
    rows = {row.key: row for row in result.key_averages()}
    assert rows["aten::mm"].device_time_total > 0 and "OCL total" in result.key_averages().table()


@feature("Profiler, Kineto")
def test_a_profile_of_the_cpu_alone_watches_no_device(device):
    run = work(device)
    with profile(activities=[ProfilerActivity.CPU]) as result:
        run()
    assert all(event.device_type == torch.autograd.DeviceType.CPU for event in result.events())
