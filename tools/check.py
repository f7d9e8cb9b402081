"""`./run check`: formatting, linting, types, layers, and lengths of lines and files, each by a pinned tool.

    ./run check                     all checks; clang-tidy reads the C++ files that differ from `main`
    ./run check --fix               formats C++, OpenCL C, CMake and Python, and mends what ruff can mend
    ./run check --only ruff mypy    some checks
    ./run check --tidy all          clang-tidy reads every C++ file (half an hour of two cores); `none` leaves it out
    ./run check --tidy 3/16         ... the third sixteenth of them

Exit status 1 when a check fails; what it found is printed. The tools lie in .venv-check (tools/check_requirements.txt).
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-check"
REQUIREMENTS = ROOT / "tools" / "check_requirements.txt"
BUILD = ROOT / "build" / "check"  # configured, never built: it only holds compile_commands.json
MOST_COLUMNS = 120
MOST_LINES = 420  # "about 400": a file that outgrows it misses a concept
# Generated documents, one case of a test per line, and OpenCL C that C++ puts together from macros.
UNBROKEN = (
    "docs/generated/",
    "tests/python/conformance/gaps.txt",
    "csrc/cpu/kernel_function.cpp",
    "csrc/cpu/launch_grid.cpp",
    "kernels_cl/ahead/programs.txt",
    "kernels_cl/common/warpgroups.clh",
)
CPP, OPENCL, CMAKE, SHELL = (".cpp", ".h"), (".cl", ".clh"), (".cmake", "CMakeLists.txt"), ("run", ".sh")
TEXT = (*CPP, *OPENCL, *CMAKE, *SHELL, ".py", ".md", ".toml", ".yml", ".cff", ".txt", ".in")


class Failed(Exception):
    """What a check found, for people."""


def tool(name: str) -> str:
    """Path of a program of .venv-check."""
    return str(ENVIRONMENT / "bin" / name)


def output_of(*command: str, check: bool = True) -> str:
    """Standard output of a program that runs in the root of the tree; Failed with all it said when it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise Failed((done.stdout + done.stderr).strip())
    return done.stdout


def files(*endings: str) -> list[str]:
    """Files that git knows or would add, relative to the root, whose names end with one of `endings`."""
    listed = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return sorted(name for name in set(listed) if name.endswith(endings) and (ROOT / name).is_file())


def install() -> None:
    """Makes .venv-check, or brings it up to date with the requirements. Needs the pip of the running interpreter."""
    wanted = REQUIREMENTS.read_text()
    stamp = ENVIRONMENT / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the tools into .venv-check", flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    output_of(sys.executable, "-m", "venv", "--without-pip", str(ENVIRONMENT))
    output_of(*pip, "--python", tool("python"), "install", "-q", "-r", str(REQUIREMENTS))
    stamp.write_text(wanted)


# ---- the checks


def clang_format(options: argparse.Namespace) -> None:
    how = ["-i"] if options.fix else ["--dry-run", "-Werror"]
    output_of(tool("clang-format"), *how, *files(*CPP, *OPENCL))


def gersemi(options: argparse.Namespace) -> None:
    output_of(tool("gersemi"), "--in-place" if options.fix else "--check", *files(*CMAKE))


def ruff(options: argparse.Namespace) -> None:
    if options.fix:
        output_of(tool("ruff"), "check", "--quiet", "--fix", "--exit-zero", ".")
    output_of(tool("ruff"), "format", *([] if options.fix else ["--check"]), "--quiet", ".")
    output_of(tool("ruff"), "check", "--output-format", "concise", ".")


def mypy(options: argparse.Namespace) -> None:
    # The running interpreter has PyTorch, whose types the checker needs.
    output_of(tool("mypy"), "--python-executable", sys.executable)


def layers(options: argparse.Namespace) -> None:
    output_of(sys.executable, "tools/check_layers.py")


def shellcheck(options: argparse.Namespace) -> None:
    output_of(tool("shellcheck"), "--external-sources", *files(*SHELL))  # with what a script reads by `.`


def too_long(name: str) -> Iterator[str]:
    """The lines of a file that are longer than MOST_COLUMNS. Rows of tables in documents and lines that are one address
    cannot be broken, and nobody edits documents that a program writes."""
    if name.startswith(UNBROKEN):
        return
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        row_or_address = name.endswith(".md") and (line.lstrip().startswith("|") or " " not in line.strip("- "))
        if len(line) > MOST_COLUMNS and not row_or_address:
            yield f"{name}:{number}: {len(line)} columns"


def columns(options: argparse.Namespace) -> None:
    found = [line for name in files(*TEXT) for line in too_long(name)]
    if found:
        raise Failed("\n".join(found))


def lengths(options: argparse.Namespace) -> None:
    found = []
    for name in files(*CPP, *OPENCL, ".py"):
        lines = len((ROOT / name).read_text().splitlines())
        if lines > MOST_LINES:
            found.append(f"{name}: {lines} lines, at most {MOST_LINES}")
    if found:
        raise Failed("\n".join(found))


def changed_files() -> set[str]:
    """Files that differ from where this branch left `main`, and those not yet committed."""
    base = output_of("git", "merge-base", "HEAD", "main", check=False).strip() or "HEAD~1"
    changed = output_of("git", "diff", "--name-only", base, check=False)
    return set((changed + output_of("git", "ls-files", "--others", "--exclude-standard")).splitlines())


def files_to_tidy(which: str) -> list[str]:
    """C++ files that clang-tidy reads for --tidy `which`; headers are read with the files that include them."""
    sources = [name for name in files(".cpp") if name.startswith("csrc/")]
    if which == "none":
        return []
    if which == "all":
        return sources
    if which == "changed":
        return [name for name in sources if name in changed_files()]
    part, parts = (int(number) for number in which.split("/"))
    # By a hash of the name: neighbours take about the same time, and a new file moves no other to another share.
    return [name for name in sources if int(hashlib.sha256(name.encode()).hexdigest(), 16) % parts == part % parts]


def configure() -> None:
    """Writes the compile commands. Without PyTorch only those of the operator library."""
    backend = output_of(
        sys.executable,
        "-c",
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "try: import torch; print(torch.utils.cmake_prefix_path)\n"
        "except ImportError: pass",
    ).strip()
    prefixes = [backend, *os.environ.get("CMAKE_PREFIX_PATH", "").split(":")]
    output_of(
        "cmake", "-S", ".", "-B", str(BUILD), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={';'.join(filter(None, prefixes))}",
        f"-DPython3_EXECUTABLE={sys.executable}", f"-DTORCH_OCL_BACKEND={'ON' if backend else 'OFF'}",
        "-DTORCH_OCL_TESTS=OFF", *os.environ.get("CMAKE_ARGS", "").split(),
    )  # fmt: skip


def clang_tidy(options: argparse.Namespace) -> None:
    wanted = files_to_tidy(options.tidy)
    if not wanted:
        return
    configure()
    known = {Path(entry["file"]) for entry in json.loads((BUILD / "compile_commands.json").read_text())}
    command = [tool("clang-tidy"), "-p", str(BUILD), "--quiet"]

    def problems(name: str) -> str:
        done = subprocess.run([*command, name], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode else ""

    names = [name for name in wanted if ROOT / name in known]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(problems, names) if text]
    if found:
        raise Failed("\n".join(found))


CHECKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "clang-format": clang_format,
    "gersemi": gersemi,
    "ruff": ruff,
    "columns": columns,
    "lengths": lengths,
    "layers": layers,
    "shellcheck": shellcheck,
    "mypy": mypy,
    "clang-tidy": clang_tidy,
}


def share(text: str) -> str:
    """The value of --tidy, or an error of argparse."""
    part, slash, parts = text.partition("/")
    if text in ("changed", "all", "none") or (slash and part.isdigit() and parts.isdigit() and int(parts) > 0):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not changed, all, none or PART/PARTS")


def main() -> int:
    parser = argparse.ArgumentParser("./run check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="format, and mend what can be mended")
    parser.add_argument("--only", nargs="+", choices=CHECKS, metavar="CHECK", help=", ".join(CHECKS))
    parser.add_argument("--tidy", type=share, default="changed", metavar="FILES", help="changed, all, none, PART/PARTS")
    options = parser.parse_args()
    install()
    failed = []
    for name in options.only or CHECKS:
        begin = time.monotonic()
        try:
            CHECKS[name](options)
            result = "ok"
        except Failed as found:
            failed.append(name)
            print(found, flush=True)
            result = "FAILED"
        except FileNotFoundError as error:
            failed.append(name)
            result = f"FAILED: {error.filename} is missing"
        print(f"{name:14} {result} ({time.monotonic() - begin:.0f} s)", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}" + ("" if options.fix else "; `./run check --fix` formats"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
