"""Compiles the kernels for GPUs that are not there, and lists registers, scratch and local memory of each kernel.

    python tools/offline_compile.py record build/cmake/tests/cpp/ocl_tests build/offline [--filter TEXT]
    python tools/offline_compile.py compile build/offline [--chroot DIR] [--target NAME...] [--jobs 2] [--write]

`record` runs the C++ tests on the installed driver in the GPU style and keeps the final source of every program that
they build: once as for a device with double precision, once as for a device without. `compile` gives each source to the
compilers of Debian's packages, offline: clang and libclc for AMD, ocloc (intel-ocloc, libigdfcl2) for Intel, clang and
llvm-spirv for SPIR-V. --chroot names the root folder of another Debian that has them. Results are kept in the folder,
so an interrupted run goes on; --kept compiles nothing more. --write makes docs/generated/gpu_compilers.md. Exit status
1 when a program does not compile, no program holds a kernel, a compiler warns, or a kernel needs scratch memory, and
offline_page.py has no reason for it.

Nothing runs on a GPU here: the table says what the compilers make of the kernels, not how fast they are.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from offline_page import DOCUMENT, ROOT, Kernel, Page, Result, Target, file_of, is_for_gpus

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
        for program in (self.clang, "ocloc", self.spirv):
            if self.has(program):
                output = self.run([program, "--version"], "/", 60)[1].splitlines()
                line = next((line for line in output if "ersion" in line), output[0] if output else "")
                lines.append(f"{program}: {line.strip()}")
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

    def commands(self, target: Target, language: str) -> list[list[str]]:
        """What compiles a.cl of the present folder; read_answer() reads the result."""
        clang = [self.clang, "-x", "cl", language, "-Xclang", "-finclude-default-header", "-Wno-linker-warnings"]
        if target.compiler == "amd":
            link = ["-nogpulib", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", self.builtins]
            place = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target.name}"]
            return [[*clang, *place, "-O3", *link, "-S", "-o", "a.s", "a.cl"]]
        if target.compiler == "intel":
            name = ["-output_no_suffix", "-output", "a"]
            return [["ocloc", "compile", "-file", "a.cl", "-device", target.name, "-options", language, *name]]
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
            sizes = re.search(r"\.reqd_workgroup_size:\s+- (\d+)\s+- (\d+)\s+- (\d+)", block)
            found.append(
                Kernel(
                    name[1],
                    registers=number("vgpr_count"),
                    scratch=number("private_segment_fixed_size"),
                    spilled=4 * number("vgpr_spill_count"),
                    local_memory=number("group_segment_fixed_size"),
                    group="x".join(sizes.groups()) if sizes else "",
                )
            )
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
        # both sizes are those of a hardware thread, which runs `simd_size` work-items
        spilled = numbers.get("spill_size", 0) // numbers.get("simd_size", 1)
        private = numbers.get("private_size", 0) // numbers.get("simd_size", 1)
        sizes = re.search(r"required_work_group_size: \[ (\d+), (\d+), (\d+) \]", block)
        found.append(
            Kernel(
                name,
                registers=numbers.get("grf_count", 0),
                scratch=private + spilled,
                spilled=spilled,
                local_memory=numbers.get("slm_size", 0),
                group="x".join(sizes.groups()) if sizes else "",
            )
        )
    return found


def read_answer(target: Target, folder: Path) -> list[Kernel]:
    if target.compiler == "amd":
        return amd_kernels((folder / "a.s").read_text())
    if target.compiler == "intel":
        return intel_kernels((folder / "a.bin").read_bytes())
    text = (folder / "a.cl").read_text()
    names = re.findall(r"\b(?:__kernel|kernel)\s+(?:__attribute__\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(", text)
    return [Kernel(name) for name in dict.fromkeys(names)] if (folder / "a.spv").stat().st_size else []


def short_warning(line: str) -> str:
    text = re.sub(r"'[^']*'", "'...'", line.split("warning:", 1)[1])
    return re.sub(r"around \d+", "around ...", text).strip()


def compile_one(compilers: Compilers, target: Target, program: Path, limit: float) -> Result:
    result = Result(program.name, target.name)
    base = Path(compilers.chroot or "/") / "tmp"
    with tempfile.TemporaryDirectory(dir=base, prefix="offline-") as place:
        folder = Path(place)
        text = program.read_text()
        # the recording device may add floats atomically, by an extension of OpenCL C 3.0 that only Intel's GPUs share
        extension = "#define FLOAT_ATOMICS 1\n" in text
        if extension and target.compiler != "intel":
            text = text.replace("#define FLOAT_ATOMICS 1\n", "#define FLOAT_ATOMICS 0\n")
        (folder / "a.cl").write_text(text)
        inside = "/tmp/" + folder.name if compilers.chroot else str(folder)
        language = "-cl-std=CL3.0" if extension and target.compiler == "intel" else "-cl-std=CL1.2"
        for command in compilers.commands(target, language):
            status, output = compilers.run(command, inside, limit)
            lines = [line for line in output.splitlines() if "warning:" in line]
            result.warnings = sorted({short_warning(line) for line in lines}.union(result.warnings))
            if status:
                errors = [line for line in output.splitlines() if "error" in line.lower()]
                result.error = (errors or output.splitlines() or ["no output"])[0][:300]
                return result
        result.kernels = read_answer(target, folder)
    return result


# Runs of the tests: environment, and which tests. NVIDIA's tensor cores are reached by their emulation only.
EVERYTHING = "*-CpuExecutor*:Host*:Program*"
TENSOR_CORES = ":".join(
    [
        "Attention.ForwardAndBackward",
        "Gemm.EveryAlgorithmHas*",
        *(f"Shapes/Conv.*/{shape}" for shape in ("PointwiseWide", "ThreeByThreeBlocks", "ManyChannels")),
    ]
)
RUNS = [
    ({}, EVERYTHING),
    ({"TORCH_OCL_TENSOR_CORES": "emulate"}, TENSOR_CORES),
    ({"TORCH_OCL_TENSOR_CORES": "emulate_warpgroups"}, TENSOR_CORES),
]
# What only operators of PyTorch reach.
PYTHON_TESTS = ["ops/test_quantized.py", "ops/test_gguf_blocks.py", "ops/test_sparse.py", "runtime/test_optimize.py"]


def record(arguments: argparse.Namespace) -> int:
    """The sources of both kinds of devices. A failed test is told; its programs count."""
    kinds: dict[str, dict[str, str]] = {"fp64": {}, "fp32": {"TORCH_OCL_SIMULATE": "fp64=0"}}
    status = 0
    for kind in arguments.kinds:
        folder = Path(arguments.folder) / kind
        folder.mkdir(parents=True, exist_ok=True)
        environment = os.environ | kinds[kind]
        environment |= {
            "TORCH_OCL_KERNEL_STYLE": "gpu",
            "TORCH_OCL_HOST_THREADS": "0",
            "TORCH_OCL_DUMP_SOURCE": str(folder.resolve()),
        }
        # without the answers of earlier self-tests these run, and are recorded, again
        fresh = {"TORCH_OCL_CACHE_DIR": str(folder.resolve().parent / "cache" / kind)}
        runs = [
            (
                extra and extra | fresh,
                [str(Path(arguments.tests).resolve()), f"--gtest_filter={arguments.filter or tests}"],
            )
            for extra, tests in RUNS
        ]
        if not arguments.filter:
            files = [str(ROOT / "tests/python" / name) for name in PYTHON_TESTS]
            runs.append(({}, [sys.executable, "-m", "pytest", "-q", *files]))
        for extra, command in runs:
            done = subprocess.run(command, env=environment | extra, cwd=ROOT, check=False)
            print(f"{kind} {extra}: {len(list(folder.glob('*.cl')))} programs, status {done.returncode}", flush=True)
            status = status or int(done.returncode not in (0, 1))
    return status


def programs_of(folder: Path) -> list[Path]:
    """The programs of a recording that are of the tree and not of CPUs; of those with the same text one. The first ones
    are of different files: an interrupted run has seen most kernels."""
    seen: dict[bytes, Path] = {}
    for path in sorted(folder.glob("*.cl")):
        if is_for_gpus(path.name):
            seen.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
    count: collections.Counter[str] = collections.Counter()
    ranks = {}
    for path in seen.values():
        ranks[path] = count[file_of(path.name)]
        count[file_of(path.name)] += 1
    return sorted(ranks, key=lambda path: (ranks[path], path.name))


def results_of(arguments: argparse.Namespace, compilers: Compilers, targets: list[Target]) -> list[Result]:
    kept = Path(arguments.folder) / "results.jsonl"
    done = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        entry = json.loads(line)
        entry["kernels"] = [Kernel(**k) for k in entry["kernels"]]
        done[entry["program"], entry["target"]] = Result(**entry)
    jobs, results = [], []
    for target in targets:
        for place, program in enumerate(programs_of(Path(arguments.folder) / target.sources)):
            known = done.get((program.name, target.name))
            if known and not (known.error and arguments.redo):
                results.append(known)
            else:
                jobs.append((target, program, place))
    jobs = [] if arguments.kept else sorted(jobs, key=lambda job: job[2])
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, kept.open("a") as file:
        running = [pool.submit(compile_one, compilers, *job[:2], arguments.limit) for job in jobs]
        for count, future in enumerate(concurrent.futures.as_completed(running), 1):
            result = future.result()
            results.append(result)
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            if result.error or count % 100 == 0:
                print(f"{count} of {len(jobs)}: {result.program} {result.target} {result.error}", flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("tests")
    recording.add_argument("folder")
    recording.add_argument("--filter", help="only these tests of C++")
    recording.add_argument("--kinds", nargs="+", choices=["fp64", "fp32"], default=["fp64", "fp32"])
    compiling = commands.add_parser("compile")
    compiling.add_argument("folder")
    compiling.add_argument("--chroot")
    compiling.add_argument("--target", nargs="+", choices=[t.name for t in TARGETS])
    compiling.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    compiling.add_argument("--limit", type=float, default=300, help="seconds for one program")
    compiling.add_argument("--redo", action="store_true", help="what failed in an earlier run is compiled again")
    compiling.add_argument("--kept", action="store_true", help="compile nothing: only what earlier runs have")
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
    page = Page(results, targets, {t.name: len(programs_of(Path(arguments.folder) / t.sources)) for t in targets})
    if arguments.write:
        DOCUMENT.write_text(page.text(compilers.versions()))
    wrong = page.wrong()
    print("\n".join(wrong))
    print(f"{len(results)} compilations, {sum(bool(r.error) for r in results)} failed")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
