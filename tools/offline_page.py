"""The page of tools/offline_compile.py: one row per kernel, what no program holds, and why kernels need memory."""

import collections
import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "generated" / "gpu_compilers.md"
EMULATED = "NVIDIA's tensor cores alone take it; here it is the emulation for tests, whose tiles are arrays"
LARGE_TILE = "Intel's GPUs are given the small tile (`few_registers`, ops/core/plan_target.h); this is the large one"
# Kernels that need scratch memory: "file kernel" or "file *", for which compilers, and why.
REASONS: dict[str, tuple[str, str]] = {
    "attention/flash.gpu.cl *": ("amd intel", EMULATED),
    "attention/flash_backward.gpu.cl *": ("amd intel", EMULATED),
    "conv/simt.gpu.cl conv_simt_gather": ("intel", LARGE_TILE),
    "conv/tensor_cores.gpu.cl *": ("amd intel", EMULATED),
    "conv/tensor_cores_last.gpu.cl *": ("amd intel", EMULATED),
    "gemm/simt.gpu.cl gemm_simt": ("intel", LARGE_TILE),
    "gemm/tensor_cores.gpu.cl *": ("amd intel", EMULATED),
    "selftest/tensor_cores.gpu.cl *": ("amd intel", EMULATED),
    "upsample/tables.cl make_tables": ("amd intel", "the shape, indexed by axis; a few work-items, once for each size"),
}
# Kernels that no program of a GPU holds, and why.
UNREACHED = {
    "core/copy_bytes.cl copy_words": "CPU devices alone take it: the others' drivers copy",
}
# Warnings that are left as they are: part of their text, and why.
WARNINGS = {
    "double precision constant requires cl_khr_fp64": "constants are written once for float and double, and converted"
    " to the type of the computation where they are used",
    "use of logical": "that side is a constant of the program",
    "and spilled around": "the kernels above",
    "Start recompilation of the kernel": "the kernels above",
}


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


@dataclass
class Kernel:
    """What a compiler says of a kernel: vector registers (AMD: of a work-item; Intel: of a hardware thread), bytes of
    scratch memory of a work-item (arrays that no register holds, and registers that were spilled), how many of them
    are spilled registers, bytes of local memory of a group, and the size of a group when the kernel fixes it."""

    name: str
    registers: int = 0
    scratch: int = 0
    spilled: int = 0
    local_memory: int = 0
    group: str = ""


@dataclass
class Result:
    program: str
    target: str
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def file(self) -> str:
        return file_of(self.program)


def file_of(program: str) -> str:
    """attention-attention.gpu-df4470ababd7.cl is of attention/attention.gpu.cl"""
    return program.rsplit("-", 1)[0].replace("-", "/", 1) + ".cl"


def is_for_gpus(program: str) -> bool:
    """Whether it is of a file of kernels_cl (the tests have sources of their own) that GPUs may take."""
    file = file_of(program)
    return ".cpu." not in file and (ROOT / "kernels_cl" / file).exists()


def gpu_lines(text: str) -> Iterable[str]:
    """The lines that a compiler sees where the style is not that of CPUs. Other conditions count as true, and so do
    their #else."""
    kept = [True]  # for each open condition
    by_style = [False]
    for line in text.splitlines():
        words = line.split("//")[0].split()
        if not words or not words[0].startswith("#"):
            if all(kept):
                yield line
        elif words[0].startswith("#if"):
            kept.append(words[1] not in ("CPU_STYLE", "FOR_CPU"))
            by_style.append(words[1].lstrip("!") in ("CPU_STYLE", "FOR_CPU"))
        elif words[0] in ("#else", "#elif"):
            kept[-1] = not kept[-1] if by_style[-1] else True
        elif words[0] == "#endif":
            kept.pop()
            by_style.pop()


DEFINITION = re.compile(r"^(?:kernel|[A-Z_]*_KERNEL)\s+(?:__attribute__\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(", re.MULTILINE)


def kernels_of_the_tree() -> set[tuple[str, str]]:
    """(file, kernel) of all kernels that GPUs may run; those whose name a macro makes are missing."""
    found = set()
    folder = ROOT / "kernels_cl"
    for path in sorted(folder.rglob("*.cl")):
        if ".cpu." not in path.name:
            text = "\n".join(gpu_lines(path.read_text()))
            found |= {(path.relative_to(folder).as_posix(), name) for name in DEFINITION.findall(text)}
    return found


def reason(file: str, kernel: str, compiler: str) -> str:
    compilers, why = REASONS.get(f"{file} {kernel}") or REASONS.get(f"{file} *") or ("", "")
    return why if compiler in compilers.split() else ""


def why_it_stays(warning: str) -> str:
    return next((why for text, why in WARNINGS.items() if text in warning), "")


def cell(found: list[Kernel]) -> str:
    """The most that any program of this kernel needs."""
    registers, scratch, spilled = (max(getattr(k, what) for k in found) for what in ("registers", "scratch", "spilled"))
    text = str(registers)
    if scratch:
        text += f", scratch {scratch}" + (f" (spilled {spilled})" if spilled else "")
    return text


def sizes_of_group(kernels: list[Kernel]) -> str:
    sizes = sorted({k.group for k in kernels if k.group}, key=lambda text: [int(n) for n in text.split("x")])
    if len(sizes) > 3:
        sizes = [sizes[0], "...", sizes[-1]]
    return ", ".join(size.removesuffix("x1").removesuffix("x1") for size in sizes)


class Page:
    """`recorded`: how many programs there are for each target, compiled or not."""

    def __init__(self, results: list[Result], targets: list[Target], recorded: dict[str, int]):
        self.results = results
        self.targets = targets
        self.recorded = recorded
        self.shown = [t for t in targets if t.compiler != "spirv"]
        self.cells: dict[tuple[str, str], dict[str, list[Kernel]]] = collections.defaultdict(
            lambda: collections.defaultdict(list)
        )
        for result in results:
            for kernel in result.kernels:
                self.cells[result.file, kernel.name][result.target].append(kernel)
        self.all = {k for k in kernels_of_the_tree() | set(self.cells) if " ".join(k) not in UNREACHED}
        self.missing = sorted(self.all - set(self.cells))

    def wrong(self) -> list[str]:
        """What a person has to mend, one line each."""
        found = [f"{r.program} for {r.target}: {r.error}" for r in self.results if r.error]
        found += [f"{file} {kernel} is in no program" for file, kernel in self.missing]
        for target in self.targets:
            for file, kernel in self.scratch(target):
                if not reason(file, kernel, target.compiler):
                    most = max(k.scratch for k in self.cells[file, kernel][target.name])
                    found.append(f"{file} {kernel} has no reason for {most} bytes of scratch memory on {target.name}")
        texts = {w for r in self.results for w in r.warnings if not why_it_stays(w)}
        found += [f"a warning to mend: {text}" for text in sorted(texts)]
        return found

    def scratch(self, target: Target) -> list[tuple[str, str]]:
        """The kernels that need scratch memory there."""
        return [
            name for name, cells in sorted(self.cells.items()) if any(k.scratch for k in cells.get(target.name, ()))
        ]

    def summary(self) -> str:
        text = "| target | programs | compiled | failed | kernels | with scratch memory |\n|---|---|---|---|---|---|\n"
        for target in self.targets:
            mine = [r for r in self.results if r.target == target.name]
            names = {(r.file, k.name) for r in mine for k in r.kernels}
            needs = "" if target.compiler == "spirv" else str(len(self.scratch(target)))
            row = [
                target.title,
                self.recorded[target.name],
                len(mine),
                sum(bool(r.error) for r in mine),
                len(names),
                needs,
            ]
            text += "| " + " | ".join(map(str, row)) + " |\n"
        return text

    def coverage(self) -> str:
        total, have = len(self.all), len(self.all) - len(self.missing)
        text = f"Of {total} kernels that GPUs may run, {have} ({100 * have / total:.0f}%) are in these programs"
        for target in self.shown:
            names = [name for name, by_target in self.cells.items() if target.name in by_target]
            text += f", {len(names)} of them for {target.title}"
        return text + ".\n" + "".join(f"- `{file}`: `{kernel}` is in none\n" for file, kernel in self.missing)

    def rows(self, family: str) -> str:
        text = "| file | kernel | programs | group | local memory | " + " | ".join(t.title for t in self.shown)
        text += " |\n" + "|---" * (len(self.shown) + 5) + "|\n"
        last = ""
        for (file, kernel), by_target in sorted(self.cells.items()):
            if not file.startswith(family + "/"):
                continue
            every = [k for found in by_target.values() for k in found]
            most = max(len(found) for found in by_target.values())
            local = max(k.local_memory for k in every) or ""
            begin = f"| {file.split('/', 1)[1] if file != last else ''} | {kernel} | {most} | {sizes_of_group(every)}"
            cells = (cell(by_target[t.name]) if t.name in by_target else "" for t in self.shown)
            text += f"{begin} | {local} | " + " | ".join(cells) + " |\n"
            last = file
        return text

    def text(self, versions: list[str]) -> str:
        families = sorted({file.split("/")[0] for file, _ in self.cells})
        text = HEAD.format(date=datetime.date.today().isoformat(), versions="\n".join(f"- {v}" for v in versions))
        text += self.summary() + "\n" + self.coverage()
        text += "\n## Why some have scratch memory\n\n"
        grouped = collections.defaultdict(set)
        for target in self.shown:
            for file, kernel in self.scratch(target):
                grouped[file, reason(file, kernel, target.compiler)].add(kernel)
        text += "| file | kernels | reason |\n|---|---|---|\n" if grouped else "None has.\n"
        text += "".join(f"| {file} | {', '.join(sorted(k))} | {why} |\n" for (file, why), k in sorted(grouped.items()))
        warnings = collections.Counter(w for r in self.results for w in set(r.warnings))
        text += "\n## Warnings\n\n" + (
            "| warning | programs | why it stays |\n|---|---|---|\n" if warnings else "None.\n"
        )
        text += "".join(f"| {w.replace('|', ' ')} | {n} | {why_it_stays(w)} |\n" for w, n in warnings.most_common())
        return text + "".join(f"\n## {family}\n\n{self.rows(family)}" for family in families)


HEAD = """# What GPU compilers make of the kernels

Generated by `tools/offline_compile.py`; do not edit. The programs that the C++ tests build in the GPU style were
compiled on {date}, for GPUs that were not there, with these compilers of Debian:

{versions}

Nothing ran: the tables say what the compilers make of the kernels, not how fast they are. A row is a kernel; its
numbers are the largest over its programs (one per type, shape of tiles and fused operation). Group: the size of a
work-group, where the kernel fixes it. Local memory: bytes of a work-group, without what the launch sets. Under a
target: vector registers (AMD: of a work-item, at most 512 or 256; Intel: of a hardware thread of 8 to 32 work-items),
then bytes of scratch memory of a work-item (arrays that are indexed at run time, and spilled registers), when there is
any. GPUs without double precision are given the programs of such a device.

"""
