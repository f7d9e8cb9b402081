"""Loading: autoload policy, missing loader, taken name, drivers from pip. Each case is a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PACKAGE = Path(__file__).resolve().parents[3] / "python"


def python(code, timeout=300, **environment):
    """Runs code in a fresh interpreter that sees the package; returns (exit status, output)."""
    variables = os.environ | {"PYTHONPATH": str(PACKAGE)} | environment
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout + done.stderr


NO_LOADER = "from _torch_ocl_boot import loader; loader.library = lambda: None\n"
AUTOLOAD = "import torch, sys, _torch_ocl_boot; _torch_ocl_boot.autoload(); print('torch_ocl' in sys.modules)\n"


def test_autoload_loads_where_opencl_is_the_only_accelerator():
    status, output = python(
        AUTOLOAD + "print(torch.accelerator.current_accelerator(), torch.ocl.is_available())",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert status == 0 and output.split() == ["True", "ocl", "True"], output


@pytest.mark.parametrize("why", ["forbidden", "no loader", "other accelerator", "no device", "name taken"])
def test_autoload_declines(why):
    before, environment = "", {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    if why == "forbidden":
        environment["TORCH_OCL_AUTOLOAD"] = "0"
    elif why == "no loader":
        before = NO_LOADER
    elif why == "other accelerator":
        before = "from _torch_ocl_boot import accelerators; accelerators.other = lambda: 'cuda'\n"
    elif why == "no device":
        before = "from _torch_ocl_boot import loader; loader.probe = lambda: 0\n"
    else:
        before = "import torch; torch.utils.rename_privateuse1_backend('other')\n"
    status, output = python(before + AUTOLOAD, **environment)
    assert status == 0 and output.split() == ["False"], output


# Drivers of PyTorch's own accelerators, as far as autoload asks them: `devices` of them, of version `version`.
FAKE_DRIVERS = {
    "cuda": (
        "libcuda.so.1",
        """
        int cuInit(unsigned flags) { return 0; }
        int cuDriverGetVersion(int* version) { *version = VERSION; return 0; }
        int cuDeviceGetCount(int* count) { *count = DEVICES; return 0; }
        """,
    ),
    "hip": ("libamdhip64.so.7", "int hipGetDeviceCount(int* count) { *count = DEVICES; return 0; }"),
    "xpu": (
        "libze_loader.so.1",
        """
        int zeInit(int flags) { return 0; }
        int zeDriverGet(unsigned* count, void** drivers) { *count = 1; return 0; }
        int zeDeviceGet(void* driver, unsigned* count, void** devices) { *count = DEVICES; return 0; }
        """,
    ),
}
# Which PyTorch this process pretends to have, and what must not be called in it.
PRETEND = """
import sys, torch
torch.version.cuda, torch.version.hip, torch.version.xpu = {versions}
torch.cuda.is_available = torch.xpu.is_available = lambda: print("asked in this process") or DEVICES > 0
"""


def with_fake_driver(tmp_path, kind, devices, version=13000):
    """Runs autoload beside such a driver; returns (exit status, output)."""
    compiler = shutil.which("cc") or shutil.which("g++")
    if not compiler:
        pytest.skip("needs a C compiler")
    name, source = FAKE_DRIVERS[kind]
    file = tmp_path / "driver.c"
    file.write_text('#ifdef __cplusplus\nextern "C" {\n#endif\n' + source + "\n#ifdef __cplusplus\n}\n#endif\n")
    defines = [f"-DDEVICES={devices}", f"-DVERSION={version}"]
    subprocess.run([compiler, "-shared", "-fPIC", *defines, "-o", str(tmp_path / name), str(file)], check=True)
    versions = tuple("13.0" if kind == other else None for other in ("cuda", "hip", "xpu"))
    libraries = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")]))
    return python(
        f"DEVICES = {devices}\n" + PRETEND.format(versions=versions) + AUTOLOAD,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        LD_LIBRARY_PATH=libraries,
    )


@pytest.mark.parametrize("kind", FAKE_DRIVERS)
@pytest.mark.parametrize("devices", [0, 2])
def test_other_accelerators_are_asked_by_another_process(kind, devices, tmp_path):
    """Asked in this one, PyTorch refuses them in every process that is forked later."""
    status, output = with_fake_driver(tmp_path, kind, devices)
    assert status == 0 and output.split() == [str(devices == 0)], output


def test_a_driver_too_old_for_this_pytorch_is_no_accelerator(tmp_path):
    status, output = with_fake_driver(tmp_path, "cuda", devices=1, version=12080)
    assert status == 0 and output.split() == ["True"], output


@pytest.mark.skipif(torch.version.cuda is None, reason="PyTorch was built without CUDA")
def test_import_leaves_cuda_to_forked_processes():
    code = (
        "import os, torch\nif os.fork() == 0: print(torch.cuda._is_in_bad_fork(), flush=True); os._exit(0)\nos.wait()"
    )
    status, output = python(code)
    assert status == 0 and output.split() == ["False"], output


ACCELERATE = "import os; print(os.environ.get('ACCELERATE_TORCH_DEVICE'))"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "ocl"),
        ({"ACCELERATE_TORCH_DEVICE": "cpu"}, "cpu"),
        ({"ACCELERATE_USE_CPU": "true"}, "None"),
        ({"ACCELERATE_USE_CPU": "true", "ACCELERATE_TORCH_DEVICE": "ocl"}, "None"),
    ],
)
def test_accelerate_is_told_about_the_device(environment, expected, monkeypatch):
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
    status, output = python("import torch, torch_ocl\n" + ACCELERATE, **environment)
    assert status == 0 and output.split() == [expected], output


@pytest.mark.parametrize("before", ["accelerators.other = lambda: 'cuda'", "loader.probe = lambda: 0"])
def test_accelerate_is_left_alone_where_ocl_is_not_the_only_accelerator(before, monkeypatch):
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
    code = f"from _torch_ocl_boot import accelerators, loader; {before}\nimport torch, torch_ocl\n" + ACCELERATE
    status, output = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 0 and output.split() == ["None"], output


def test_autoload_never_opens_a_driver_in_this_process():
    """Otherwise `import torch` would take fork() away from its user."""
    code = AUTOLOAD + "print(any('libpocl' in line or 'libintelocl' in line for line in open('/proc/self/maps')))"
    status, output = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 0 and output.split()[-1] == "False", output


def test_without_a_loader_the_device_says_what_to_install():
    code = NO_LOADER + (
        "import torch, torch_ocl\n"
        "print(torch.ocl.is_available(), torch.ocl.device_count(), torch.accelerator.is_available())\n"
        "torch.manual_seed(1)\n"
        "try: torch.ones(2).to('ocl')\n"
        "except RuntimeError as error: print(error)\n"
    )
    status, output = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 0 and output.startswith("False 0 False") and "pocl-opencl-icd" in output, output


def test_without_a_device_the_device_says_what_to_install(tmp_path):
    code = (
        "import torch, torch_ocl\nprint(torch.ocl.is_available())\n"
        "try: torch.ones(2).to('ocl')\nexcept RuntimeError as error: print(error)\n"
    )
    status, output = python(
        code, TORCH_DEVICE_BACKEND_AUTOLOAD="0", OCL_ICD_VENDORS=str(tmp_path), OCL_ICD_FILENAMES=""
    )
    assert status == 0 and output.startswith("False") and "No OpenCL device" in output and "pip install" in output, (
        output
    )


def test_a_broken_driver_is_no_device(tmp_path):
    (tmp_path / "broken.icd").write_text("/nowhere/libbroken.so\n")
    code = "import torch, torch_ocl; print(torch.ocl.is_available())"
    status, output = python(
        code, TORCH_DEVICE_BACKEND_AUTOLOAD="0", OCL_ICD_VENDORS=str(tmp_path), OCL_ICD_FILENAMES=""
    )
    assert status == 0 and output.split() == ["False"], output


@pytest.mark.parametrize("name", ["other", "ocl"])
def test_a_taken_name_is_a_clear_error(name):
    code = f"import torch; torch.utils.rename_privateuse1_backend({name!r}); torch.ocl = 1\nimport torch_ocl"
    status, output = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status != 0 and "already renamed" in output, output


def test_vendor_folder_keeps_the_system_drivers(tmp_path):
    from _torch_ocl_boot import loader

    system = {"a.icd": "/etc/OpenCL/vendors/a.icd"}
    folder = loader._write_vendor_folder(tmp_path / "vendors" / "x", system, ["/env/lib/libdriver.so"])
    assert sorted(file.name for file in folder.iterdir()) == ["a.icd", "torch_ocl_0.icd"]
    assert os.readlink(folder / "a.icd") == system["a.icd"]
    assert loader._write_vendor_folder(folder, {}, []) == folder  # made once


def test_the_doctor_works():
    done = subprocess.run(
        [sys.executable, "-m", "torch_ocl"],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and "everything works" in done.stdout, done.stdout + done.stderr


def test_leaving_right_after_backward_is_clean():
    code = "import torch, torch_ocl; x = torch.ones(4, device='ocl', requires_grad=True); (x * x).sum().backward()"
    for _ in range(3):
        status, output = python(code)
        assert status == 0 and not output.strip(), output
