"""Saving, loading, pickling, copying, DLPack, safetensors."""

import copy
import io
import pickle

import numpy
import pytest
import torch

feature = pytest.mark.feature


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


@feature("Serialization")
@pytest.mark.parametrize(
    "location",
    [None, "cpu", "ocl", "ocl:0", torch.device("ocl"), {"ocl:0": "cpu"}, lambda storage, place: storage],
    ids=lambda place: "function" if callable(place) else repr(place),
)
def test_map_location(device, location):
    x = torch.arange(6.0, device=device).view(2, 3)
    loaded = torch.load(
        saved({"x": x, "row": x[1], "p": torch.nn.Parameter(x)}), map_location=location, weights_only=True
    )
    where = "cpu" if location == "cpu" or isinstance(location, dict) or callable(location) else "ocl"
    assert (
        loaded["x"].device.type == where
        and loaded["row"].tolist() == [3, 4, 5]
        and isinstance(loaded["p"], torch.nn.Parameter)
    )
    loaded["x"][1, 0] = 9  # views stay views
    assert loaded["row"][0].item() == 9


@feature("Serialization")
def test_from_the_cpu_old_format_and_missing_device(device):
    assert torch.load(saved(torch.ones(3)), map_location=device).device.type == "ocl"
    assert torch.load(saved(torch.ones(3, device=device), _use_new_zipfile_serialization=False)).device.type == "ocl"
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on OCL device 7"):
        torch.load(saved(torch.ones(3)), map_location="ocl:7")


@feature("Serialization")
def test_modules_and_optimizers(device):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(8, 4, device=device)).sum().backward()
    optimizer.step()
    twin, optimizer_twin = pickle.loads(pickle.dumps((model, optimizer)))
    assert optimizer_twin.param_groups[0]["params"][0] is twin[0].weight and twin[0].weight.device.type == "ocl"
    assert torch.equal(optimizer_twin.state[twin[0].weight]["exp_avg"], optimizer.state[model[0].weight]["exp_avg"])
    fresh = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).to(device)
    optimizer_fresh = torch.optim.Adam(fresh.parameters())
    fresh.load_state_dict(torch.load(saved(model.state_dict()), map_location="cpu"))
    optimizer_fresh.load_state_dict(torch.load(saved(optimizer.state_dict()), map_location="cpu"))
    state = optimizer_fresh.state[fresh[0].weight]
    assert (
        torch.equal(fresh[0].weight, model[0].weight)
        and state["exp_avg"].device.type == "ocl"
        and state["step"].device.type == "cpu"
    )
    deep = copy.deepcopy(model)
    assert deep[0].weight.device.type == "ocl" and deep[0].weight.data_ptr() != model[0].weight.data_ptr()
    empty = torch.nn.Linear(2, 2, device="meta").to_empty(device=device)
    assert empty.weight.device.type == "ocl"


@feature("RNG")
def test_generators_are_copied_and_pickled(device):
    generator = torch.Generator(device).manual_seed(5)
    torch.rand(3, device=device, generator=generator)
    for twin in (generator.clone_state(), pickle.loads(pickle.dumps(generator))):
        assert twin.device == generator.device and torch.equal(twin.get_state(), generator.get_state())
        state = generator.get_state()
        assert torch.equal(
            torch.rand(9, device=device, generator=twin), torch.rand(9, device=device, generator=generator)
        )
        generator.set_state(state)
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(torch.zeros(3, dtype=torch.uint8))


@feature("Serialization")
def test_safetensors(device, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(3, 2).to(device)
    file = str(tmp_path / "model.safetensors")
    safetensors.save_model(model, file)
    twin = torch.nn.Linear(3, 2).to(device)
    safetensors.load_model(twin, file)
    assert twin.weight.device.type == "ocl" and torch.equal(twin.weight, model.weight)
    assert torch.equal(safetensors.load_file(file)["weight"].to(device), model.weight)


@feature("Serialization")
@pytest.mark.parametrize("spelling", ["ocl", "ocl:0", torch.device("ocl"), torch.device("ocl", 0), 0])
def test_safetensors_straight_to_the_device(spelling, tmp_path):
    safetensors, safe_open = pytest.importorskip("safetensors.torch"), pytest.importorskip("safetensors").safe_open
    file = str(tmp_path / "x.safetensors")
    tensors = {"a": torch.arange(12.0).view(3, 4), "b": torch.ones(5, dtype=torch.bfloat16)}
    safetensors.save_file(tensors, file)
    for name, tensor in safetensors.load_file(file, device=spelling).items():
        assert tensor.device == torch.device("ocl:0") and torch.equal(tensor.cpu(), tensors[name])
    with safe_open(file, "pt", spelling) as opened:
        assert isinstance(opened, safe_open)
        part = opened.get_slice("a")[1:, :2]
    assert part.device.type == "ocl" and torch.equal(part.cpu(), tensors["a"][1:, :2])
    assert safetensors.load_file(file)["a"].device.type == "cpu"
    with pytest.raises(Exception, match="invalid"):
        safetensors.load_file(file, device="oclx")


@feature("DLPack")
def test_dlpack_shares_device_memory(device):
    x = torch.arange(8.0, device=device)
    for y in (
        torch.from_dlpack(x),
        torch.from_dlpack(x.__dlpack__()),
        torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    ):
        assert y.device == x.device and y.data_ptr() == x.data_ptr()
    part = torch.from_dlpack(x[3:])
    assert part.data_ptr() == x[3:].data_ptr() and part.tolist() == [3, 4, 5, 6, 7]
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 0)
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device=device, requires_grad=True).__dlpack__()


@feature("DLPack")
def test_dlpack_to_the_host(device):
    x = torch.arange(8.0, device=device)
    copied = torch.from_dlpack(x, device="cpu")
    x.add_(1)
    assert copied.device.type == "cpu" and copied.tolist() == list(range(8))
    assert numpy.from_dlpack(x, device="cpu").tolist() == list(range(1, 9))
    assert torch.from_dlpack(numpy.arange(3.0)).to(device).sum().item() == 3
    if torch.ocl.get_device_properties(device).unified_memory:
        shared = numpy.from_dlpack(x, device="cpu", copy=False)
        assert shared.ctypes.data == x.data_ptr() and shared.tolist() == list(range(1, 9))
        y = torch.from_numpy(shared)
        del x
        assert y.tolist() == list(range(1, 9))  # keeps the memory
    else:
        with pytest.raises((ValueError, BufferError)):
            numpy.from_dlpack(x, device="cpu", copy=False)


@feature("Tensor, module and storage methods")
def test_storages(device):
    storage = torch.ones(4, device=device).untyped_storage()
    assert (
        storage.device.type == "ocl"
        and storage.nbytes() == 16
        and storage.cpu().nbytes() == 16
        and not storage.is_pinned()
    )
    assert (
        storage.clone().device == storage.device == copy.deepcopy(storage).device and storage.resize_(64).nbytes() == 64
    )
    x = torch.ones(3, device=device)
    x.data = torch.zeros(5, device=device)
    assert x.shape == (5,) and x.detach().resize_(100).shape == (100,)
