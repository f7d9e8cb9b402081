"""Checks the include rule of the layers: opencl <- ops <- runtime <- aten <- python, and that only opencl/ makes OpenCL calls,
that kernels have no macros of any number of arguments, which are no OpenCL C (NVIDIA's compiler refuses them, others do not),
and that only the kernel itself asks which group it is, because where it is called (csrc/opencl/kernel_function.h) nobody else knows.

`python tests/check_layers.py` prints every violation and exits with 1 when there is one.
"""

import re
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parents[1] / "csrc"
KERNELS = CSRC.parent / "kernels_cl"
LAYERS = ("opencl", "ops", "runtime", "aten", "python")
MAY_INCLUDE = {
    "opencl": {"opencl"},
    "compiler": {"opencl"},
    "ops": {"opencl", "ops"},
    "runtime": {"opencl", "ops", "runtime"},
    "aten": {"opencl", "ops", "runtime", "aten"},
    "python": {"opencl", "ops", "runtime", "aten", "python"},
    "distributed": {"opencl", "ops", "runtime", "aten", "distributed"},
}
WITHOUT_TORCH = {"opencl", "compiler", "ops"}
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|pybind11|Python\.h)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
OPENCL_CALL = re.compile(r"(?<![\w.>:])cl(?:[A-Z][a-z]+)+[A-Za-z]*\s*\(")
VARIADIC = re.compile(r"^\s*#\s*define\s+\w+\([^)]*\.\.\.\s*\)", re.MULTILINE)
HELPER = re.compile(r"^(?:static |inline |__attribute__\(\(\w+\)\) )+[^;{]*\{(?:[^\n]*\}$|.*?^\})", re.MULTILINE | re.DOTALL)
ASKS_GROUP = re.compile(r"\bget_(?:group_id|num_groups|global_id|global_size)\b")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def violations():
    for file in sorted(CSRC.rglob("*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        layer = file.relative_to(CSRC).parts[0]
        text, where = file.read_text(), file.relative_to(CSRC.parent)
        for header in INCLUDE.findall(text):
            other = header.split("/")[0]
            if other in MAY_INCLUDE and other not in MAY_INCLUDE[layer]:
                yield f"{where}: {layer} must not include {header}"
            if layer in WITHOUT_TORCH and TORCH_HEADER.match(header):
                yield f"{where}: {layer} must not know PyTorch, but includes {header}"
        if layer in ("aten", "python"):
            for call in OPENCL_CALL.findall(COMMENT.sub("", text)):
                yield f"{where}: {layer} calls OpenCL itself: {call.strip('( ')}"


def kernel_violations():
    for file in sorted(KERNELS.rglob("*.cl*")):
        text, where = file.read_text(), file.relative_to(KERNELS.parent)
        for macro in VARIADIC.findall(text):
            yield f"{where}: a macro of any number of arguments:{macro.split('define')[1]}"
        if file.suffix == ".clh" or re.search(r"^\w*_CALLABLE\(", text, re.MULTILINE):
            for helper in HELPER.findall(text):
                if ASKS_GROUP.search(COMMENT.sub("", helper)):
                    yield f"{where}: a function asks which group it is: {helper.splitlines()[0]}"


if __name__ == "__main__":
    found = [*violations(), *kernel_violations()]
    print("\n".join(found) or "layers: ok")
    sys.exit(bool(found))
