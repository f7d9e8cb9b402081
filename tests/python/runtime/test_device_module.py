"""`torch.ocl` and `torch.accelerator`: devices, streams, events, memory, random numbers, switches."""

import gc
import os
import subprocess
import sys
import weakref

import pytest
import torch

feature = pytest.mark.feature


@feature("Device module")
def test_names_of_torch_cuda_are_there():
    wanted = [
        "is_available",
        "device_count",
        "current_device",
        "set_device",
        "synchronize",
        "device",
        "device_of",
        "get_device_name",
        "get_device_properties",
        "get_device_capability",
        "Stream",
        "Event",
        "stream",
        "current_stream",
        "default_stream",
        "set_stream",
        "empty_cache",
        "memory_stats",
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "memory_summary",
        "memory_snapshot",
        "mem_get_info",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "get_rng_state_all",
        "set_rng_state_all",
        "is_initialized",
        "init",
        "is_bf16_supported",
        "set_per_process_memory_fraction",
        "default_generators",
        "amp",
        "memory_cached",
        "max_memory_cached",
        "caching_allocator_alloc",
        "caching_allocator_delete",
        "device_memory_used",
        "get_allocator_backend",
        "host_memory_stats",
        "ipc_collect",
        "get_arch_list",
        "is_tf32_supported",
        "is_current_stream_capturing",
        "OutOfMemoryError",
        "AcceleratorError",
        "has_half",
        "compile_kernel",
    ]
    assert [name for name in wanted if not hasattr(torch.ocl, name)] == []
    assert torch.get_device_module("ocl") is torch.ocl


@feature("Current device")
def test_device_is_the_accelerator(device):
    assert torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == torch.ocl.device_count()
    with torch.ocl.device(0):
        assert torch.ocl.current_device() == torch.accelerator.current_device_index() == 0
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ocl.set_device(torch.ocl.device_count())


@feature("Device properties")
def test_properties(device):
    facts = torch.ocl.get_device_properties(device)
    assert facts.name == torch.ocl.get_device_name() and facts.total_memory > 0 and facts.multi_processor_count >= 1
    assert torch.ocl.get_device_capability() >= (1, 2)


@feature("Tensor, module and storage methods")
def test_methods_of_tensor_module_storage(device):
    x = torch.ones(3).ocl()
    assert x.is_ocl and x.device == torch.device("ocl:0") and not torch.ones(1).is_ocl
    assert torch.nn.Linear(2, 2).ocl().weight.is_ocl
    assert torch.ones(3).untyped_storage().ocl().is_ocl


@feature("Streams")
def test_streams_and_events(device):
    x = torch.ones(1 << 20, device=device)
    stream, start, end = torch.ocl.Stream(), torch.ocl.Event(enable_timing=True), torch.ocl.Event(enable_timing=True)
    assert isinstance(stream, torch.Stream) and isinstance(start, torch.Event)
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream() == stream
        start.record()
        for _ in range(4):
            x = x + 1
        end.record()
    assert torch.ocl.current_stream() == torch.ocl.default_stream()
    torch.ocl.current_stream().wait_event(end)
    assert x.sum().item() == 5 << 20
    end.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 60_000
    assert stream.native_handle != 0


@feature("Memory statistics")
def test_memory_statistics(device):
    gc.collect()
    torch.ocl.synchronize()
    before = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    x = torch.empty(1 << 20, device=device)
    assert torch.ocl.memory_allocated() - before >= 4 << 20
    assert torch.ocl.max_memory_allocated() >= torch.ocl.memory_allocated()
    assert torch.ocl.memory_reserved() >= torch.ocl.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.ocl.memory_allocated()
    del x
    assert torch.ocl.memory_allocated() == before
    torch.ocl.empty_cache()
    free, total = torch.ocl.mem_get_info()
    assert 0 < free <= total
    assert "allocated_bytes" in torch.ocl.memory_summary()
    assert isinstance(torch.ocl.memory_snapshot(), list)
    assert torch.ocl.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == torch.ocl.memory_allocated()


@feature("Out-of-memory error")
def test_out_of_memory_is_pytorchs_error_and_leaves_the_device_usable(device):
    torch.ocl.set_per_process_memory_fraction(0.05)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(torch.ocl.mem_get_info()[1], dtype=torch.uint8, device=device)
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0)
    assert torch.ones(8, device=device).sum().item() == 8


@feature("RNG")
def test_same_seed_same_numbers(device):
    torch.manual_seed(7)
    first = torch.rand(1000, device=device)
    state = torch.ocl.get_rng_state()
    second = torch.rand(1000, device=device)
    torch.ocl.set_rng_state(state)
    assert torch.equal(torch.rand(1000, device=device), second)
    torch.ocl.manual_seed(7)
    assert torch.equal(torch.rand(1000, device=device), first)
    assert torch.ocl.initial_seed() == 7
    own = torch.Generator(device).manual_seed(7)
    assert torch.equal(torch.rand(1000, device=device, generator=own), first)


@feature("RNG")
def test_fork_rng_and_checkpoint_keep_random_state(device):
    state = torch.ocl.get_rng_state()
    with torch.random.fork_rng(device_type="ocl"):
        torch.rand(10, device=device)
    assert torch.equal(torch.ocl.get_rng_state(), state)
    x = torch.ones(1000, device=device, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda v: torch.nn.functional.dropout(v * v, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0)


def test_switches(device):
    with torch.backends.ocl.flags(winograd="off", deterministic=True):
        assert torch.backends.ocl.winograd == "off" and torch.are_deterministic_algorithms_enabled()
    assert torch.backends.ocl.allow_tf32 is False
    with torch.backends.ocl.flags(allow_tf32=True):
        assert torch.backends.ocl.allow_tf32 is True
    assert torch.backends.ocl.allow_tf32 is False
    assert torch.backends.ocl.winograd != "off" and not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(
        ValueError, match=r"is one of auto, precise, off, True \(auto\) or False \(off\), not 'sometimes'"
    ):
        torch.backends.ocl.winograd = "sometimes"


def test_benchmark_switch(device, tmp_path):
    """Measured choices: right results, stored, printed, deletable. In a process of its own, for the cache folder."""
    if torch.ocl.get_device_properties(device).style != "cpu":
        pytest.skip("one algorithm only: nothing to measure")
    program = f"""
import torch, torch_ocl
torch.manual_seed(0)
conv, x = torch.nn.Conv2d(16, 24, 3, padding=1), torch.randn(2, 16, 12, 12)
assert torch.backends.ocl.benchmark is False
with torch.backends.ocl.flags(benchmark=True):
    y = torch.nn.functional.conv2d(x.to("{device}"), conv.weight.to("{device}"), conv.bias.to("{device}"), padding=1)
assert torch.backends.ocl.benchmark is False
assert (y.cpu() - conv(x)).abs().max() < 1e-4
"""
    environment = dict(os.environ, TORCH_OCL_CACHE_DIR=str(tmp_path))
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    tuning = [sys.executable, "-m", "torch_ocl", "tuning"]
    known = subprocess.run(tuning, check=True, env=environment, capture_output=True, text=True).stdout
    assert "conv_forward float32 0 2 1 16 24 " in known
    subprocess.run([*tuning, "clear"], check=True, env=environment)
    assert (
        "conv_forward float32 0 2 1 16 24 "
        not in subprocess.run(tuning, check=True, env=environment, capture_output=True, text=True).stdout
    )


@feature("CPU fallback")
def test_fallback_policy(device):
    before = torch.ocl.fallback_policy()
    torch.ocl.set_fallback_policy("error")
    assert torch.ocl.fallback_policy() == "error"
    torch.ocl.set_fallback_policy(before)
    with pytest.raises(ValueError, match="not 'maybe'"):
        torch.ocl.set_fallback_policy("maybe")


@feature("GradScaler")
def test_autocast_and_grad_scaler(device):
    model = torch.nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler(device)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast(device, dtype):
            out = model(torch.ones(8, 16, device=device))
            assert out.dtype == dtype
            loss = out.float().pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert loss.item() > 0 and scaler.get_scale() > 0


@feature("DLPack")
def test_dlpack_round_trip(device):
    x = torch.arange(6.0, device=device)
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] == torch.utils.dlpack.DLDeviceType.kDLExtDev


@feature("Serialization")
def test_save_and_load(device, tmp_path):
    torch.save({"x": torch.arange(6, device=device)}, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt")["x"].device.type == "ocl"
    assert torch.load(tmp_path / "x.pt", map_location="cpu")["x"].tolist() == list(range(6))
    assert torch.load(tmp_path / "x.pt", map_location="ocl:0", mmap=True)["x"].tolist() == list(range(6))


@pytest.mark.parametrize(
    "move",
    [lambda m: m.to("ocl"), lambda m: m.ocl(), lambda m: m.to("ocl", torch.float32), lambda m: m.to("ocl").cpu()],
)
def test_moves_keep_parameters(move):
    model = torch.nn.ModuleDict({"lstm": torch.nn.LSTM(4, 4), "out": torch.nn.Linear(4, 4)})
    before = [id(parameter) for parameter in model.parameters()]
    move(model)
    assert [id(parameter) for parameter in model.parameters()] == before


def test_moved_parameters_keep_hooks_attributes_and_references(device):
    class Special(torch.nn.Parameter):
        pass

    model = torch.nn.Linear(2, 2)
    model.weight = Special(torch.randn(2, 2))
    model.weight.decay = False
    reference, calls = weakref.ref(model.weight), []
    model.weight.register_hook(lambda gradient: calls.append(gradient.device.type))
    model.weight.register_post_accumulate_grad_hook(lambda weight: calls.append(weight.grad.device.type))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(1, 2)).sum().backward()
    gradient = model.weight.grad
    alive = model(torch.randn(1, 2))  # a graph that still holds the parameter
    calls.clear()
    model.to(device)
    assert reference() is model.weight and type(model.weight) is Special and model.weight.decay is False
    assert model.weight.grad is gradient and gradient.device.type == "ocl" and alive.device.type == "cpu"
    before = model.weight.detach().clone()
    model(torch.randn(1, 2, device=device)).sum().backward()
    optimizer.step()
    assert calls == ["ocl", "ocl"] and not torch.equal(model.weight, before)


def test_lazy_modules_move(device):
    model = torch.nn.Sequential(
        torch.nn.LazyConv2d(3, 3), torch.nn.LazyBatchNorm2d(), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    ).to(device)
    assert type(model[0].weight) is torch.nn.UninitializedParameter
    assert model(torch.randn(2, 1, 5, 5, device=device)).shape == (2, 2)
    assert {type(parameter) for parameter in model.parameters()} == {torch.nn.Parameter}


def test_assigned_data(device):
    parameter = torch.nn.Parameter(torch.arange(3.0))
    (parameter * 2).sum().backward()
    parameter.data, parameter.grad = parameter.data.to(device), None
    (parameter * parameter).sum().backward()
    assert parameter.is_leaf and parameter.grad.device.type == "ocl" and parameter.grad.tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match="floating point or complex"):
        parameter.data = torch.arange(3, device="cpu")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.zeros(3).data = torch.zeros(3).to_sparse()


@feature("Several devices")
@pytest.mark.skipif("torch.ocl.device_count() < 2")
def test_two_devices(device):
    x = torch.arange(100.0, device="ocl:0")
    y = x.to("ocl:1")
    assert y.device.index == 1 and torch.equal(y.cpu(), x.cpu())
    assert ((y * 2).to("ocl:0") == x * 2).all().item()
    with torch.ocl.device(1):
        assert torch.empty(1, device="ocl").device.index == 1
    with pytest.raises(RuntimeError, match="same device"):
        x + y
