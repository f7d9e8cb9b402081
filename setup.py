"""Builds the C++ part with CMake and Ninja and puts it beside the Python part. Everything else is in pyproject.toml.

The glue keeps to Python's stable ABI, so a wheel serves every Python from 3.10 on; of PyTorch each minor version needs
a core of its own, and a wheel has the one of the torch that it was built with, or several (tools/wheel.py).

Environment: TORCH_OCL_BUILD_DIR (default build/cmake), TORCH_OCL_BUILD_TESTS=1 (also the GoogleTest suite), CMAKE_ARGS,
MAX_JOBS; TORCH_OCL_BUILT, a folder with cores that are built already (lib/torch2.13 and so on).
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = (
    "0"  # an older copy of this package must not be loaded while it is replaced
)

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
BUILT = os.environ.get("TORCH_OCL_BUILT")


def torch_version():
    import torch

    return torch.__version__.split("+")[0]


def cmake_build(target):
    """Configures, builds and installs the component `python` into `target`."""
    import torch

    build = Path(os.environ.get("TORCH_OCL_BUILD_DIR", ROOT / "build" / "cmake"))
    environment = dict(os.environ)
    # In an isolated build cmake and ninja are Python packages whose programs are on the path.
    prefixes = [torch.utils.cmake_prefix_path, environment.get("CMAKE_PREFIX_PATH", "").replace(":", ";")]
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DTORCH_OCL_TESTS={'ON' if os.environ.get('TORCH_OCL_BUILD_TESTS') == '1' else 'OFF'}",
        *shlex.split(os.environ.get("CMAKE_ARGS", "")),
    ]  # fmt: skip
    jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
    subprocess.check_call(configure, env=environment)
    subprocess.check_call(["cmake", "--build", str(build), *jobs], env=environment)
    subprocess.check_call(
        ["cmake", "--install", str(build), "--prefix", str(target), "--component", "python"], env=environment
    )


class CMakeBuild(build_ext):
    def run(self):
        in_place = self.inplace or self.editable_mode
        target = ROOT / "python" / "torch_ocl" if in_place else Path(self.build_lib).resolve() / "torch_ocl"
        target.mkdir(parents=True, exist_ok=True)
        if BUILT:
            shutil.copytree(BUILT, target, dirs_exist_ok=True)
        else:
            cmake_build(target)

    def get_output_mapping(self):
        return {}

    def get_outputs(self):
        return []


def requirements():
    """The minor versions of torch that the wheel has a core for."""
    if BUILT:
        minors = sorted(int(folder.name.removeprefix("torch2.")) for folder in Path(BUILT, "lib").glob("torch2.*"))
        missing = [f"!=2.{minor}.*" for minor in range(minors[0], minors[-1]) if minor not in minors]
        return [",".join([f"torch>=2.{minors[0]}", f"<2.{minors[-1] + 1}", *missing])]
    try:
        major, minor = torch_version().split(".")[:2]
    except ImportError:
        return ["torch"]
    return [f"torch=={major}.{minor}.*"]


setup(
    install_requires=requirements(),
    ext_modules=[Extension("torch_ocl._C", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": CMakeBuild},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
