"""Builds the provider's library with CMake and puts it beside the Python part. Everything else is in pyproject.toml.

It needs ONNX Runtime's headers (1.23 or later): `./run setup --onnxruntime` unpacks Debian's, CMAKE_ARGS may name
others (-DONNXRUNTIME_INCLUDE=FOLDER). Environment: CMAKE_ARGS, MAX_JOBS, and ONNXRUNTIME_EP_OCL_BUILT, a build folder
of CMake whose library is taken as it is.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parents[2]


def version():
    return re.search(r'__version__ = "(.+)"', (ROOT / "python" / "torch_ocl" / "_version.py").read_text())[1]


class CMakeBuild(build_ext):
    def run(self):
        here = Path(__file__).resolve().parent
        target = (here if self.inplace or self.editable_mode else Path(self.build_lib).resolve()) / "onnxruntime_ep_ocl"
        target.mkdir(parents=True, exist_ok=True)
        build = Path(os.environ.get("ONNXRUNTIME_EP_OCL_BUILT", ROOT / "build" / "onnxruntime"))
        if "ONNXRUNTIME_EP_OCL_BUILT" not in os.environ:
            configure = ["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "-DTORCH_OCL_BACKEND=OFF"]
            configure += ["-DTORCH_OCL_TESTS=OFF", "-DTORCH_OCL_ONNXRUNTIME=ON"]
            subprocess.check_call([*configure, *shlex.split(os.environ.get("CMAKE_ARGS", ""))])
            jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
            subprocess.check_call(["cmake", "--build", str(build), *jobs])
        install = ["cmake", "--install", str(build), "--prefix", str(target), "--component", "onnxruntime", "--strip"]
        subprocess.check_call(install)

    def get_output_mapping(self):
        return {}

    def get_outputs(self):
        return []


class AnyPython(bdist_wheel):
    """The library knows nothing of Python: one wheel serves every version."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    version=version(),
    ext_modules=[Extension("onnxruntime_ep_ocl.library", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": AnyPython},
)
