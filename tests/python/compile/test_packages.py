"""AOTInductor's public functions on ocl: what is packed, and what the loaded package computes and refuses."""

import io
import os
import subprocess
import sys

import pytest
import torch
from torch._inductor.package import load_package, package_aoti

from .comparison import same


class Network(torch.nn.Module):
    """With parameters, a buffer that a call changes, an argument by name, and results in a dict."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x, scale=None):
        self.calls.add_(1)
        return {"y": torch.relu(self.norm(self.linear(x))) * scale, "calls": self.calls.sum()}


def make(device):
    torch.manual_seed(0)
    host = Network().eval()
    network = Network().eval()
    network.load_state_dict(host.state_dict())
    return host, network.to(device)


def inputs(device, rows):
    x, scale = torch.randn(rows, 8), torch.rand(16)
    return (x, scale), (x.to(device), scale.to(device))


def pack(network, device, path):
    _, (x, scale) = inputs(device, 4)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(network, (x,), {"scale": scale}, dynamic_shapes={"x": {0: rows}, "scale": None})
    return torch._inductor.aoti_compile_and_package(program, package_path=path)


def test_a_package_computes_what_the_module_does(device, tmp_path):
    host, network = make(device)
    path = str(tmp_path / "network.pt2")
    assert pack(network, device, path) == path
    package = torch._inductor.aoti_load_package(path)
    assert package.get_metadata()["AOTI_DEVICE_KEY"] == "ocl"
    torch.ocl.reset_fallbacks()
    for rows in (4, 9):
        (x, scale), (there, scale_there) = inputs(device, rows)
        same(package(there, scale=scale_there), host(x, scale))
    assert torch.ocl.fallbacks() == {}


SCRIPT = """
import sys, torch
package = torch._inductor.aoti_load_package(sys.argv[1])
x, scale = torch.load(sys.argv[2])
y = package(x.to("ocl"), scale=scale.to("ocl"))["y"]
assert y.device.type == "ocl" and torch.ocl.fallbacks() == {}
torch.save(y.cpu(), sys.argv[3])
"""


def test_a_package_loads_in_another_process_without_a_cpp_compiler(device, tmp_path):
    host, network = make(device)
    path = pack(network, device, str(tmp_path / "network.pt2"))
    (x, scale), _ = inputs(device, 7)
    torch.save((x, scale), tmp_path / "inputs.pt")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "other"), "CXX": "none"}
    files = [path, str(tmp_path / "inputs.pt"), str(tmp_path / "result.pt")]
    subprocess.run([sys.executable, "-c", "import torch_ocl\n" + SCRIPT, *files], env=environment, check=True)
    torch.testing.assert_close(torch.load(tmp_path / "result.pt"), host(x, scale)["y"], rtol=2e-5, atol=2e-5)


class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.full((3,), factor))

    def forward(self, x):
        return x * self.factor


def exported(factor, device):
    return torch.export.export(Scale(factor).to(device), (torch.ones(3, device=device),))


def test_files_in_memory_packages_without_a_name_and_several_models(device):
    x = torch.arange(3.0)
    memory = io.BytesIO()
    torch._inductor.aoti_compile_and_package(exported(2.0, device), package_path=memory)
    memory.seek(0)
    same(torch._inductor.aoti_load_package(memory)(x.to(device)), x * 2)

    path = torch._inductor.aoti_compile_and_package(exported(3.0, device))
    same(torch._inductor.aoti_load_package(path)(x.to(device)), x * 3)

    files = {}
    for name, factor in (("one", 4.0), ("other", 5.0)):
        program = exported(factor, device)
        module = program.module(check_guards=False)
        files[name] = torch._inductor.aot_compile(
            module, program.example_inputs[0], options={"aot_inductor.package": True}
        )
    memory = io.BytesIO()
    package_aoti(memory, files)
    for name, factor in (("one", 4.0), ("other", 5.0)):
        memory.seek(0)
        same(load_package(memory, name)(x.to(device)), x * factor)


def test_constants_of_a_package_are_replaced(device, tmp_path):
    x = torch.arange(3.0)
    path = torch._inductor.aoti_compile_and_package(exported(2.0, device), package_path=str(tmp_path / "scale.pt2"))
    package = torch._inductor.aoti_load_package(path)
    assert package.get_constant_fqns() == ["factor"]
    package.load_constants({"factor": torch.full((3,), 6.0, device=device)}, check_full_update=True)
    same(package(x.to(device)), x * 6)
    package.load_constants({"factor": torch.full((3,), 7.0)}, check_full_update=True, allow_h2d_copy=True)
    same(package(x.to(device)), x * 7)
    for constants, options, message in (
        ({}, {"check_full_update": True}, "no value for factor"),
        ({"factor": torch.ones(4, device=device)}, {"check_full_update": False}, "must be"),
        ({"factor": torch.ones(3)}, {"check_full_update": False}, "must be on ocl"),
    ):
        with pytest.raises(RuntimeError, match=message):
            package.load_constants(constants, **options)
    same(package(x.to(device)), x * 7)


def test_wrong_inputs_and_devices_are_errors(device, tmp_path):
    path = torch._inductor.aoti_compile_and_package(exported(2.0, device), package_path=str(tmp_path / "scale.pt2"))
    package = torch._inductor.aoti_load_package(path)
    for wrong in (torch.ones(3), torch.ones(3, dtype=torch.int32, device=device), torch.ones(3, 1, device=device)):
        with pytest.raises(RuntimeError, match="was given"):
            package(wrong)
    with pytest.raises(AssertionError, match="expected size 4==3"):
        package(torch.ones(4, device=device))
    with pytest.raises(ValueError, match="cannot be loaded to ocl:7"):
        torch._inductor.aoti_load_package(path, device_index=7)


def test_shared_libraries_are_refused_with_what_to_do_instead(device):
    program = exported(2.0, device)
    with pytest.raises(RuntimeError, match="aoti_compile_and_package"):
        torch._inductor.aot_compile(program.module(check_guards=False), program.example_inputs[0])


def test_a_package_of_another_version_is_refused(device, tmp_path, monkeypatch):
    from torch_ocl.inductor import packages

    path = torch._inductor.aoti_compile_and_package(exported(2.0, device), package_path=str(tmp_path / "scale.pt2"))
    monkeypatch.setattr(packages, "__version__", "another")
    with pytest.raises(ValueError, match="was made with"):
        torch._inductor.aoti_load_package(path)
