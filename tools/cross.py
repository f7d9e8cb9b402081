"""Builds the operator library and its C++ tests for another system and runs the tests: `./run cross windows`,
`./run cross aarch64`.

windows: Debian's mingw-w64, the tests under wine with Intel's OpenCL runtime for Windows from PyPI. aarch64: Debian's
cross compiler, the tests under qemu-user in a Debian root with PoCL (debootstrap; needs root, and a kernel that starts
programs of that processor by qemu: binfmt_misc).

Every test suite that --filter names runs in a process of its own. The exit status is 0 when no test failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ["intel-opencl-rt", "tbb", "tcmlib", "umf"]
HEADERS = ["cmake", "ninja-build", "opencl-c-headers", "googletest"]
PACKAGES = {
    "windows": ["g++-mingw-w64-x86-64-posix", "wine", "wine64", *HEADERS],
    "aarch64": ["g++-aarch64-linux-gnu", "qemu-user-static", "debootstrap", *HEADERS],
}
PRESETS = {"windows": "mingw", "aarch64": "aarch64"}
MIRROR = "http://deb.debian.org/debian"
QEMU = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
Runner = Callable[[str], list[str]]  # a command that runs the tests, of the filter


def run(*command: str | Path, **more: object) -> None:
    print("  " + " ".join(str(part) for part in command)[:150], flush=True)
    subprocess.run([str(part) for part in command], check=True, **more)  # type: ignore[call-overload]


def packages(system: str) -> None:
    """Installs what is missing of Debian's packages, as root."""
    query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} "]
    missing = [name for name in PACKAGES[system] if subprocess.run([*query, name], capture_output=True).returncode]
    if missing and os.geteuid() == 0:
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "--no-install-recommends", *missing)


def windows(build: Path) -> tuple[Runner, dict[str, str]]:
    """A prefix of wine's with Intel's runtime, whose DLLs lie beside the tests."""
    tests = build / "tests" / "cpp"
    wheels = build / "runtime"
    folder = "Z:" + str(wheels).replace("/", "\\")
    if not wheels.exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        run(*pip, "--platform", "win_amd64", "-d", wheels, *RUNTIME)
        for wheel in wheels.glob("*.whl"):
            shutil.unpack_archive(wheel, wheels / "unpacked", "zip")
        for file in wheels.glob("unpacked/*.data/data/Library/bin/*"):
            shutil.move(file, wheels / file.name)
        settings = wheels / "cl.cfg"  # the runtime loads TBB from nowhere else
        settings.write_text(settings.read_text().replace("TBB_DLL_PATH =", f"TBB_DLL_PATH = {folder}"))
    shutil.copy(wheels / "OpenCL.dll", tests)  # elsewhere wine would find its own first, which knows OpenCL 1.2 only
    environment = {
        **os.environ,
        "WINEPREFIX": str(build / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "OpenCL=n;mscoree,mshtml=",
        "WINEPATH": folder,
    }
    driver = folder + "\\intelocl64.dll"
    run("wine", "reg", "add", r"HKLM\SOFTWARE\Khronos\OpenCL\Vendors", "/v", driver, "/t", "REG_DWORD", "/d", "0", "/f",
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return lambda chosen: ["wine", str(tests / "ocl_tests.exe"), f"--gtest_filter={chosen}"], environment


def aarch64(build: Path) -> tuple[Runner, dict[str, str]]:
    """A Debian root with PoCL, in which the tests are started by chroot."""
    root = Path(os.environ.get("ARM64_ROOT", build / "root"))
    if not QEMU.exists():
        sys.exit(f"{QEMU} is missing: mount binfmt_misc and register qemu-aarch64 (Debian: install binfmt-support)")
    if not (root / "etc" / "OpenCL" / "vendors" / "pocl.icd").exists():
        more = "--include=pocl-opencl-icd,ocl-icd-libopencl1,libstdc++6"
        run("debootstrap", "--arch=arm64", "--variant=minbase", more, "bookworm", root, MIRROR)
    home = root / "opt" / "tests"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("ocl_tests", "ocl_child_program"):
        shutil.copy(build / "tests" / "cpp" / name, home)
    shutil.copy(build / "torch_ocl_compiler", home)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "TORCH_OCL_VISIBLE_DEVICES": "portable"}
    mounts = f"mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys && mount --bind /dev {root}/dev"
    enter = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec chroot {root} "$@"', "sh"]  # they end with the tests
    return lambda chosen: [*enter, "/opt/tests/ocl_tests", f"--gtest_filter={chosen}"], environment


def suites(command: list[str], environment: dict[str, str]) -> dict[str, list[str]]:
    """{suite: whole names of its tests}."""
    listed = subprocess.run(
        [*command, "--gtest_list_tests"], capture_output=True, env=environment, text=True, check=True
    )
    result: dict[str, list[str]] = {}
    suite = ""
    for line in listed.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            result.setdefault(suite, []).append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return result


def count(log: str) -> dict[str, int]:
    """How many tests the log of a GoogleTest program has by their end; started and not ended: crashed."""
    ends = {"passed": "[       OK ]", "failed": "[  FAILED  ]", "skipped": "[  SKIPPED ]"}
    lines = [line for line in log.splitlines() if " ms)" in line]
    result = {end: sum(line.startswith(mark) for line in lines) for end, mark in ends.items()}
    result["crashed"] = log.count("[ RUN      ]") - sum(result.values())
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=sorted(PRESETS))
    parser.add_argument("--filter", default="*", help="tests to run, as --gtest_filter takes them")
    parser.add_argument("--seconds", type=float, default=1800, help="that one suite may take")
    parser.add_argument("--no-build", action="store_true", help="run what is built")
    options = parser.parse_args()
    build = ROOT / "build" / PRESETS[options.system]
    packages(options.system)
    if not options.no_build:
        run("cmake", "--preset", PRESETS[options.system], cwd=ROOT)
        run("cmake", "--build", build)
    command, environment = {"windows": windows, "aarch64": aarch64}[options.system](build)
    total: dict[str, int] = {}
    logs = build / "logs"
    logs.mkdir(exist_ok=True)
    for suite, names in suites(command(options.filter), environment).items():
        chosen = f"{suite}*" if options.filter == "*" else ":".join(names)
        try:
            log = subprocess.run(command(chosen), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                 timeout=options.seconds, check=False).stdout  # fmt: skip
        except subprocess.TimeoutExpired as late:
            log = late.stdout or b""
        text = log.decode(errors="replace")
        (logs / f"{suite.strip('.').replace('/', '_')}.log").write_text(text)
        counted = count(text)
        print(f"  {suite.strip('.'):40} {json.dumps(counted)}", flush=True)
        total = {end: total.get(end, 0) + number for end, number in counted.items()}
    print(f"{options.system}: {json.dumps(total)}")
    return 1 if total.get("failed", 1) or total.get("crashed", 1) else 0


if __name__ == "__main__":
    sys.exit(main())
