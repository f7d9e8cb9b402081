"""Errors have CUDA's types, name device and operator, and leave the process usable."""

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

feature = pytest.mark.feature


def on_cpu_and_device(device):
    return {
        "add": lambda: torch.ones(3, device=device) + torch.ones(3),
        "mm": lambda: torch.ones(3, 3, device=device) @ torch.ones(3, 3),
        "bmm": lambda: torch.bmm(torch.ones(1, 2, 2, device=device), torch.ones(1, 2, 2)),
        "linear, input on the CPU": lambda: torch.nn.Linear(2, 2).to(device)(torch.ones(1, 2)),
        "linear, weights on the CPU": lambda: torch.nn.Linear(2, 2)(torch.ones(1, 2, device=device)),
        "conv2d, weights on the CPU": lambda: F.conv2d(torch.ones(1, 1, 3, 3, device=device), torch.ones(1, 1, 1, 1)),
        "cat": lambda: torch.cat([torch.ones(2), torch.ones(2, device=device)]),
        "cross_entropy": lambda: F.cross_entropy(torch.ones(2, 3, device=device), torch.tensor([0, 1])),
        "embedding": lambda: F.embedding(torch.tensor([1]), torch.ones(3, 3, device=device)),
        "where": lambda: torch.where(torch.ones(2, device=device) > 0, torch.ones(2), torch.ones(2, device=device)),
        "out=": lambda: torch.add(torch.ones(3, device=device), 1, out=torch.empty(3)),
        "batch_norm": lambda: F.batch_norm(
            torch.ones(2, 2, device=device), torch.ones(2), torch.ones(2), training=True
        ),
        "layer_norm": lambda: F.layer_norm(torch.ones(2, 2, device=device), (2,), torch.ones(2)),
        "gather": lambda: torch.gather(torch.ones(3, device=device), 0, torch.tensor([0])),
        "index_select": lambda: torch.index_select(torch.ones(3, device=device), 0, torch.tensor([0])),
        "grad": lambda: torch.ones(2, device=device, requires_grad=True).backward(torch.ones(2)),
    }


@feature("Errors")
@pytest.mark.parametrize("case", list(on_cpu_and_device("ocl")))
def test_tensors_on_different_devices(device, case):
    with pytest.raises(RuntimeError, match=r"(?i)same device|should be the same|device ocl:0 but got cpu"):
        on_cpu_and_device(device)[case]()
        torch.ocl.synchronize()


INDEX = {
    "index": lambda x, i: x[i],
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "cross_entropy": lambda x, i: F.cross_entropy(x[None], i),
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_put_": lambda x, i: x.clone().index_put_((i,), x[:1]),
    "take": lambda x, i: x.take(i),
}


@feature("Errors")
@pytest.mark.parametrize("case", list(INDEX))
def test_an_index_out_of_range_is_reported_at_the_next_synchronisation(device, case):
    x = torch.ones(3, device=device)
    with pytest.raises(torch.AcceleratorError, match="index 9 is out of bounds for dimension with size 3"):
        INDEX[case](x, torch.tensor([9], device=device))
        torch.ocl.synchronize()
    assert (x + 1).tolist() == [2, 2, 2]  # CUDA's context would be lost; this one goes on


@feature("Out-of-memory error")
def test_a_hundred_times_out_of_memory(device):
    model = torch.nn.Linear(64, 64).to(device)
    x = torch.rand(8, 64, device=device)
    expected = model(x).sum().item()
    ooms = torch.ocl.memory_stats()["num_ooms"]
    torch.ocl.memory_usage_limit(torch.ocl.memory_reserved() + (8 << 20))
    try:
        for _ in range(100):
            with pytest.raises(torch.OutOfMemoryError) as caught:
                torch.empty(1 << 28, device=device)
    finally:
        torch.ocl.memory_usage_limit(0)
    text = str(caught.value)
    assert (
        "Tried to allocate 1.00 GiB" in text
        and torch.ocl.get_device_name() in text
        and "Device 0" in text
        and "cached" in text
    )
    assert isinstance(caught.value, torch.ocl.OutOfMemoryError) and isinstance(caught.value, RuntimeError)
    assert torch.ocl.memory_stats()["num_ooms"] == ooms + 100
    model(x).sum().backward()
    assert model(x).sum().item() == pytest.approx(expected) and model.weight.grad.isfinite().all()


@feature("Per-process memory cap")
def test_memory_fraction(device):
    torch.empty(1, device=device)
    total = torch.ocl.mem_get_info()[1]
    torch.ocl.set_per_process_memory_fraction(0.01)
    try:
        assert torch.ocl.get_per_process_memory_fraction() == pytest.approx(0.01, rel=1e-3)
        with pytest.raises(torch.OutOfMemoryError, match="this process may reserve"):
            torch.empty(int(0.02 * total), dtype=torch.uint8, device=device)
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="Invalid fraction"):
        torch.ocl.set_per_process_memory_fraction(1.5)


ORDINAL = {
    "empty": lambda: torch.empty(1, device="ocl:9"),
    "to": lambda: torch.ones(1).to("ocl:9"),
    "set_device": lambda: torch.ocl.set_device(9),
    "device": lambda: torch.ocl.device(9).__enter__(),
    "accelerator.set_device_index": lambda: torch.accelerator.set_device_index(9),
    "Stream": lambda: torch.Stream("ocl:9"),
    "current_stream": lambda: torch.ocl.current_stream(9),
    "accelerator.current_stream": lambda: torch.accelerator.current_stream(9),
    "synchronize": lambda: torch.ocl.synchronize(9),
    "accelerator.synchronize": lambda: torch.accelerator.synchronize(9),
    "memory_allocated": lambda: torch.ocl.memory_allocated(9),
    "accelerator.memory_stats": lambda: torch.accelerator.memory_stats(9),
    "mem_get_info": lambda: torch.ocl.mem_get_info(9),
    "get_rng_state": lambda: torch.ocl.get_rng_state(9),
    "Generator": lambda: torch.Generator("ocl:9"),
    "get_device_properties": lambda: torch.ocl.get_device_properties(9),
}


@feature("Errors")
@pytest.mark.parametrize("case", list(ORDINAL))
def test_a_device_that_is_not_there(device, case):
    if case == "accelerator.current_stream" and torch.__version__ < "2.13":
        pytest.skip("the interface of this version cannot report it")
    with pytest.raises((RuntimeError, AssertionError), match=r"(?i)invalid device"):
        ORDINAL[case]()
    assert torch.ocl.current_device() == 0 and torch.ones(2, device=device).sum().item() == 2


@feature("Errors")
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_types_without_kernels(device, dtype):
    x = torch.ones(4).to(dtype).to(device)
    assert x.device.type == "ocl" and x.cpu().to(torch.complex64).real.tolist() == [1, 1, 1, 1]  # stored and moved
    with pytest.raises(NotImplementedError, match=r"ocl:0.*not implemented for 'Float8_e(4m3fn|5m2)'"):
        x + x


@feature("NumPy and printing")
def test_numpy_refuses_device_memory_as_on_cuda(device):
    import numpy

    x = torch.ones(3, device=device)
    for use in (x.numpy, lambda: numpy.asarray(x)):
        with pytest.raises(TypeError, match=r"can't convert ocl:0 device type tensor to numpy. Use Tensor.cpu"):
            use()
    assert x.numpy(force=True).tolist() == [1, 1, 1] == x.cpu().numpy().tolist() == x.tolist()
    assert torch.as_tensor(numpy.ones(2), device=device).dtype == torch.float64
    assert (
        numpy.array([0.5]).item() * x.sum().item() == 1.5
        and float(x[0]) == 1
        and [5, 6][torch.tensor(1, device=device)] == 6
    )


@feature("NumPy and printing")
def test_printing(device):
    for x in (
        torch.tensor([[1.5, -2], [0, 1e9]]),
        torch.tensor([True]),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2).half(),
        torch.empty(0),
        torch.tensor(3),
    ):
        there, here = repr(x.to(device)), repr(x)
        assert "device='ocl:0'" in there and there.replace(", device='ocl:0'", "").split() == here.split()
    assert f"{torch.tensor(1.5, device=device):.2f}" == "1.50"
    assert "..." in str(torch.rand(5000, device=device)) and "requires_grad=True" in str(
        torch.nn.Parameter(torch.ones(1, device=device))
    )


@feature("Errors")
def test_anomaly_mode_names_the_backward_function(device):
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.raises(RuntimeError, match="SqrtBackward0' returned nan"),
    ):
        x = torch.zeros(2, device=device, requires_grad=True)
        torch.sqrt(x - 1).sum().backward()


@feature("Errors")
def test_a_kernel_error_does_not_end_the_process():
    """From a script: the exception is an ordinary one, and the interpreter ends cleanly after it."""
    code = """if True:
        import torch, torch_ocl
        x = torch.ones(3, device="ocl")
        try: print(x[torch.tensor([5], device="ocl")])
        except RuntimeError as error: print(type(error).__name__, x.sum().item())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["AcceleratorError", "3.0"], done.stderr


@feature("Errors")
def test_copies_of_modules_after_an_error(device):
    model = torch.nn.Linear(3, 3).to(device)
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 4, device=device))
    twin = copy.deepcopy(model)
    assert (
        twin.weight.device == model.weight.device
        and torch.equal(twin.weight, model.weight)
        and twin.weight.data_ptr() != model.weight.data_ptr()
    )
