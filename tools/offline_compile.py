"""Compiles the kernels for GPUs that are not there, and lists registers, scratch and local memory of each kernel.

    python tools/offline_compile.py record build/cmake/tests/cpp/ocl_tests build/offline [--filter TEXT]
    python tools/offline_compile.py compile build/offline [--chroot DIR] [--target NAME...] [--jobs 2] [--write]

`record` runs the C++ tests on the installed driver in the GPU style and keeps the final source of every program that
they build: once as for a device with double precision, once as for a device without. `compile` gives each source to the
compilers of Debian's packages, offline: clang and libclc for AMD, ocloc (intel-ocloc, libigdfcl2) for Intel, clang and
llvm-spirv for SPIR-V. --chroot names the root folder of another Debian that has them. Results are kept in the folder,
so an interrupted run goes on. --write makes docs/generated/gpu_compilers.md. Exit status 1 when a program of a target
does not compile, or a kernel has scratch memory and no reason in REASONS.

A kernel that no test builds in the GPU style is listed as missing. Nothing runs on a GPU here: the table says what the
compilers make of the kernels, not how fast they are.
"""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oclgrind_suite import kernels as kernels_of_the_tree

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "generated" / "gpu_compilers.md"
OPTIONS = ["-cl-std=CL1.2"]  # what programs are built with on GPUs (csrc/opencl/program/program.cpp)
# Kernels with registers or arrays in memory, and why. A key is "file kernel".
REASONS: dict[str, str] = {}


@dataclass(frozen=True)
class Target:
    """A compiler's target. `sources`: which recording it takes, by whether the device computes in double precision."""

    name: str
    device: str
    compiler: str  # amd, intel or spirv
    sources: str  # fp64 or fp32

    @property
    def title(self) -> str:
        return f"{self.device} ({self.name})"


TARGETS = [
    Target("gfx900", "AMD Vega", "amd", "fp64"),
    Target("gfx90a", "AMD CDNA 2", "amd", "fp64"),
    Target("gfx942", "AMD CDNA 3", "amd", "fp64"),
    Target("gfx1030", "AMD RDNA 2", "amd", "fp64"),
    Target("gfx1100", "AMD RDNA 3", "amd", "fp64"),
    Target("gfx1200", "AMD RDNA 4", "amd", "fp64"),
    Target("tgllp", "Intel Xe-LP", "intel", "fp32"),
    Target("dg2", "Intel Xe-HPG", "intel", "fp32"),
    Target("pvc", "Intel Xe-HPC", "intel", "fp64"),
    Target("bmg", "Intel Xe2", "intel", "fp64"),
    Target("spirv64", "SPIR-V", "spirv", "fp64"),
]


@dataclass
class Kernel:
    """What a compiler says of a kernel: registers of a work-item, bytes of its scratch memory (registers that were
    spilled, arrays that no register holds), bytes of local memory of its group."""

    name: str
    registers: int = 0
    scratch: int = 0
    local_memory: int = 0


@dataclass
class Result:
    program: str
    target: str
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)


class Compilers:
    """The compilers of this system, or of the one below the folder `chroot`."""

    def __init__(self, chroot: str | None):
        self.chroot = chroot
        root = Path(chroot or "/")
        found = sorted((root / "usr/lib/clc").glob("amdgcn--amdhsa.bc"))
        self.builtins = "/" + str(found[0].relative_to(root)) if found else ""
        # from 20 on, clang lets a kernel call a copy of itself, which cannot have local memory
        self.clang = next((f"clang-{v}" for v in (19, 18, 17, 16, 20, 21) if self.has(f"clang-{v}")), "clang")
        self.spirv = next(
            (f"llvm-spirv-{v}" for v in (19, 18, 17, 16, 15) if self.has(f"llvm-spirv-{v}")), "llvm-spirv"
        )

    def has(self, program: str) -> bool:
        return os.path.lexists(Path(self.chroot or "/") / "usr/bin" / program)  # a link may be absolute

    def serves(self, target: Target) -> bool:
        if target.compiler == "amd":
            return self.has(self.clang) and bool(self.builtins)
        if target.compiler == "intel":
            return self.has("ocloc")
        return self.has(self.clang) and self.has(self.spirv)

    def versions(self) -> list[str]:
        lines = []
        for command in ([self.clang, "--version"], ["ocloc", "--version"], [self.spirv, "--version"]):
            if self.has(command[0]):
                output = self.run(command, "/", 60)[1]
                lines.append(next((line.strip() for line in output.splitlines() if "ersion" in line), command[0]))
        return lines

    def run(self, command: list[str], folder: str, limit: float) -> tuple[int, str]:
        """Status and output; `folder` is a path inside the chroot."""
        if self.chroot:
            text = 'cd "$0" && exec "$@"'
            command = ["chroot", self.chroot, "/bin/sh", "-c", text, folder, *command]
        try:
            done = subprocess.run(
                command,
                cwd=None if self.chroot else folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"took more than {limit:.0f} s"
        return done.returncode, done.stdout.decode(errors="replace")

    def commands(self, target: Target) -> list[list[str]]:
        """What compiles a.cl of the present folder; the file with the answer is `answer_file`."""
        clang = [self.clang, "-x", "cl", *OPTIONS, "-Xclang", "-finclude-default-header", "-Wno-linker-warnings"]
        if target.compiler == "amd":
            link = ["-nogpulib", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", self.builtins]
            place = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target.name}"]
            return [[*clang, *place, "-O3", *link, "-S", "-o", "a.s", "a.cl"]]
        if target.compiler == "intel":
            name = ["-output_no_suffix", "-output", "a"]
            return [["ocloc", "compile", "-file", "a.cl", "-device", target.name, "-options", " ".join(OPTIONS), *name]]
        # its optimiser is left to the driver that takes the SPIR-V
        return [
            [*clang, "--target=spir64-unknown-unknown", "-O1", "-emit-llvm", "-c", "-o", "a.bc", "a.cl"],
            [self.spirv, "--spirv-max-version=1.2", "a.bc", "-o", "a.spv"],
        ]


def amd_kernels(assembly: str) -> list[Kernel]:
    """From the metadata at the end of the assembly: one block per kernel, names in alphabetical order."""
    found = []
    for block in re.split(r"^  - \.", assembly, flags=re.MULTILINE)[1:]:

        def number(key: str, block: str = block) -> int:
            match = re.search(rf"\.{key}:\s+(\d+)", block)
            return int(match[1]) if match else 0

        name = re.search(r"^    \.name:\s+(\w+)", block, re.MULTILINE)
        if name:
            scratch, local = number("private_segment_fixed_size"), number("group_segment_fixed_size")
            found.append(Kernel(name[1], number("vgpr_count"), scratch, local))
    return found


def intel_kernels(binary: bytes) -> list[Kernel]:
    """From the section .ze_info, which is YAML, of the binary."""
    begin = binary.find(b"---\nversion:")
    if begin < 0:
        return []
    text = binary[begin : binary.find(b"\0", begin)].decode(errors="replace")
    found = []
    for block in re.split(r"^  - name:", text.split("kernels_misc_info:")[0], flags=re.MULTILINE)[1:]:
        name = block.split("\n", 1)[0].strip()
        numbers = {key: int(value) for key, value in re.findall(r"^      (\w+):\s+(\d+)$", block, re.MULTILINE)}
        if name.startswith("Intel_"):  # symbols that the compiler adds
            continue
        scratch = numbers.get("spill_size", 0) + numbers.get("private_size", 0)
        found.append(Kernel(name, numbers.get("grf_count", 0), scratch, numbers.get("slm_size", 0)))
    return found


def read_answer(target: Target, folder: Path) -> list[Kernel]:
    if target.compiler == "amd":
        return amd_kernels((folder / "a.s").read_text())
    if target.compiler == "intel":
        return intel_kernels((folder / "a.bin").read_bytes())
    text = (folder / "a.cl").read_text()
    names = re.findall(r"__kernel\s+(?:__attribute__\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(", text)
    return [Kernel(name) for name in dict.fromkeys(names)] if (folder / "a.spv").stat().st_size else []


def short_warning(line: str) -> str:
    return re.sub(r"'[^']*'", "'...'", line.split("warning:", 1)[1]).strip()


def compile_one(compilers: Compilers, target: Target, program: Path, limit: float) -> Result:
    result = Result(program.name, target.name)
    base = Path(compilers.chroot or "/") / "tmp"
    with tempfile.TemporaryDirectory(dir=base, prefix="offline-") as place:
        folder = Path(place)
        shutil.copy(program, folder / "a.cl")
        inside = "/tmp/" + folder.name if compilers.chroot else str(folder)
        for command in compilers.commands(target):
            status, output = compilers.run(command, inside, limit)
            result.warnings += [short_warning(line) for line in output.splitlines() if "warning:" in line]
            if status:
                errors = [line for line in output.splitlines() if "error" in line.lower()]
                result.error = (errors or output.splitlines() or ["no output"])[0][:300]
                return result
        result.kernels = read_answer(target, folder)
    return result


def record(arguments: argparse.Namespace) -> int:
    """The sources of both kinds of devices. A failed test is told; its programs count."""
    status = 0
    for kind, simulate in (("fp64", ""), ("fp32", "fp64=0")):
        folder = Path(arguments.folder) / kind
        folder.mkdir(parents=True, exist_ok=True)
        environment = dict(
            os.environ,
            TORCH_OCL_KERNEL_STYLE="gpu",
            TORCH_OCL_HOST_THREADS="0",
            TORCH_OCL_DUMP_SOURCE=str(folder.resolve()),
        )
        if simulate:
            environment["TORCH_OCL_SIMULATE"] = simulate
        run = subprocess.run([arguments.tests, f"--gtest_filter={arguments.filter}"], env=environment, check=False)
        print(f"{kind}: {len(list(folder.glob('*.cl')))} programs, tests ended with status {run.returncode}")
        status = status or int(run.returncode not in (0, 1))
    return status


def distinct(folder: Path) -> list[Path]:
    """The programs of a recording; of those with the same text one."""
    seen: dict[bytes, Path] = {}
    for path in sorted(folder.glob("*.cl")):
        seen.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
    return list(seen.values())


def results_of(arguments: argparse.Namespace, compilers: Compilers, targets: list[Target]) -> list[Result]:
    kept = Path(arguments.folder) / "results.jsonl"
    done = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        entry = json.loads(line)
        entry["kernels"] = [Kernel(**k) for k in entry["kernels"]]
        done[entry["program"], entry["target"]] = Result(**entry)
    jobs, results = [], []
    for target in targets:
        for program in distinct(Path(arguments.folder) / target.sources):
            known = done.get((program.name, target.name))
            if known and not (known.error and arguments.redo):
                results.append(known)
            else:
                jobs.append((target, program))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, kept.open("a") as file:
        running = [pool.submit(compile_one, compilers, *job, arguments.limit) for job in jobs]
        for count, future in enumerate(concurrent.futures.as_completed(running), 1):
            result = future.result()
            results.append(result)
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            if result.error or count % 100 == 0:
                print(f"{count} of {len(jobs)}: {result.program} {result.target} {result.error}", flush=True)
    return results


def file_of(program: str) -> str:
    """attention-attention.gpu-df4470ababd7.cl is of attention/attention.gpu.cl"""
    return program.rsplit("-", 1)[0].replace("-", "/", 1) + ".cl"


def table(results: list[Result], targets: list[Target]) -> tuple[list[str], list[str]]:
    """The lines of the table, and what is wrong."""
    cells: dict[str, dict[str, list[Kernel]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for result in results:
        for kernel in result.kernels:
            cells[f"{file_of(result.program)} {kernel.name}"][result.target].append(kernel)
    wrong = [f"{r.program} for {r.target}: {r.error}" for r in results if r.error]
    lines = ["| kernel | " + " | ".join(t.title for t in targets) + " |", "|---" * (len(targets) + 1) + "|"]
    for name in sorted(cells):
        row = []
        for target in targets:
            found = cells[name][target.name]
            if not found:
                row.append("")
                continue
            most = [max(getattr(k, what) for k in found) for what in ("registers", "scratch", "local_memory")]
            row.append(f"{len(found)}" if target.compiler == "spirv" else f"{most[0]} / {most[1]} / {most[2]}")
            if most[1] and name not in REASONS:
                wrong.append(f"{name} has {most[1]} bytes of scratch for {target.name}")
        lines.append(f"| `{name}` | " + " | ".join(row) + " |")
    return lines, wrong


HEAD = """# What GPU compilers make of the kernels

Generated by `tools/offline_compile.py`; do not edit. The programs that the C++ tests build in the GPU style were
compiled for GPUs that were not there, {date}, with {versions}. Nothing ran: the table says what the compilers make of
the kernels, not how fast they are.

A cell: registers (AMD: vector registers of a work-item; Intel: registers of a hardware thread) / bytes of scratch
memory (registers that were spilled, arrays that no register holds) of the same / bytes of local memory of a work-group;
the largest over the programs of that kernel (one per type and shape of tiles). SPIR-V: the number of programs that were
translated.

"""


def write_document(results: list[Result], targets: list[Target], compilers: Compilers) -> list[str]:
    lines, wrong = table(results, targets)
    counts = ["| target | programs | compiled | kernels with scratch |", "|---|---|---|---|"]
    for target in targets:
        mine = [r for r in results if r.target == target.name]
        spilling = {f"{file_of(r.program)} {k.name}" for r in mine for k in r.kernels if k.scratch}
        counts.append(f"| {target.title} | {len(mine)} | {sum(not r.error for r in mine)} | {len(spilling)} |")
    warnings = collections.Counter(w for r in results for w in set(r.warnings))
    text = HEAD.format(date=datetime.date.today().isoformat(), versions="; ".join(compilers.versions()))
    text += "\n".join(counts) + "\n\n## Kernels\n\n" + "\n".join(lines) + "\n"
    text += "\n## Warnings\n\n| warning | programs |\n|---|---|\n"
    text += "".join(f"| {w.replace('|', ' ')} | {n} |\n" for w, n in warnings.most_common())
    if REASONS:
        text += "\n## Why some have scratch memory\n\n| kernel | reason |\n|---|---|\n"
        text += "".join(f"| `{name}` | {reason} |\n" for name, reason in sorted(REASONS.items()))
    built = {tuple(name.split(" ")) for name in (row.split("`")[1] for row in lines[2:])}
    missing = sorted(kernels_of_the_tree() - built - {k for k in kernels_of_the_tree() if ".cpu." in k[0]})
    text += "\n## Kernels that no test builds in the GPU style\n\n"
    text += "\n".join(f"- `{file} {kernel}`" for file, kernel in missing) + "\n" if missing else "None.\n"
    DOCUMENT.write_text(text)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("tests")
    recording.add_argument("folder")
    recording.add_argument("--filter", default="*-CpuExecutor*:Host*:Program*")
    compiling = commands.add_parser("compile")
    compiling.add_argument("folder")
    compiling.add_argument("--chroot")
    compiling.add_argument("--target", nargs="+", choices=[t.name for t in TARGETS])
    compiling.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    compiling.add_argument("--limit", type=float, default=300, help="seconds for one program")
    compiling.add_argument("--redo", action="store_true", help="what failed in an earlier run is compiled again")
    compiling.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "record":
        return record(arguments)
    compilers = Compilers(arguments.chroot)
    targets = [t for t in TARGETS if not arguments.target or t.name in arguments.target]
    for target in targets:
        if not compilers.serves(target):
            print(f"no compiler for {target.title}: it is left out")
    targets = [t for t in targets if compilers.serves(t)]
    results = results_of(arguments, compilers, targets)
    wrong = write_document(results, targets, compilers) if arguments.write else table(results, targets)[1]
    print("\n".join(wrong))
    print(f"{len(results)} compilations, {sum(bool(r.error) for r in results)} failed")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
