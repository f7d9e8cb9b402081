"""Builds the C++ part with CMake and Ninja and puts it beside the Python part. Everything else is in pyproject.toml.

Environment: TORCH_OCL_BUILD_DIR (default build/cmake), TORCH_OCL_BUILD_TESTS=1 (also the GoogleTest suite), CMAKE_ARGS,
MAX_JOBS.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = (
    "0"  # an older copy of this package must not be loaded while it is replaced
)

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


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
    (target / "_build.py").write_text(f'TORCH = "{torch_version()}"\n')


class CMakeBuild(build_ext):
    def run(self):
        in_place = self.inplace or self.editable_mode
        target = ROOT / "python" / "torch_ocl" if in_place else Path(self.build_lib).resolve() / "torch_ocl"
        target.mkdir(parents=True, exist_ok=True)
        cmake_build(target)

    def get_output_mapping(self):
        return {}

    def get_outputs(self):
        return []


def requirements():
    """One binary per torch minor: pinned to the one it is built with."""
    try:
        major, minor = torch_version().split(".")[:2]
    except ImportError:
        return ["torch"]
    return [f"torch=={major}.{minor}.*"]


setup(
    install_requires=requirements(),
    ext_modules=[Extension("torch_ocl._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
