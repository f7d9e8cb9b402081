"""One file names the version; Python, setuptools, CMake and the changelog agree with it."""

import re
import subprocess
import sys
from pathlib import Path

import torch_ocl
from conftest import ROOT


def test_python_has_the_version_of_the_file():
    text = (ROOT / "python" / "torch_ocl" / "_version.py").read_text()
    (version,) = re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    assert torch_ocl.__version__ == version


def test_setuptools_reads_it_without_an_import():
    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == torch_ocl.__version__


def test_cmake_reads_it():
    cache = ROOT / "build" / "cmake" / "CMakeCache.txt"
    assert f"CMAKE_PROJECT_VERSION:STATIC={torch_ocl.__version__}\n" in cache.read_text()


def test_changelog_begins_with_it():
    heading = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading and heading[1] in (torch_ocl.__version__, "Unreleased")


def test_no_other_file_names_it():
    """setup.py, pyproject.toml and CMakeLists.txt read the file; a number of their own would be forgotten."""
    number = re.compile(rf"version\s*[=(]?\s*\"?{re.escape(torch_ocl.__version__)}", re.IGNORECASE)
    for name in ("setup.py", "pyproject.toml", "CMakeLists.txt", "CITATION.cff", "python/torch_ocl/__init__.py"):
        assert not number.search((ROOT / name).read_text()), name


def test_package_is_marked_as_typed():
    assert (Path(torch_ocl.__file__).parent / "py.typed").exists()
