"""Checks the include rule of the layers: base <- opencl <- {cpu, ops} <- {ocl, onnxruntime, torch}
(csrc/README.md).

Inside torch: runtime <- {aten, autograd, distributed} <- python. Also checked: only opencl/ and cpu/ make OpenCL
calls; kernels have no macros of any number of arguments, which are no OpenCL C (NVIDIA's compiler refuses them, others
do not); kernels ask by HAS whether a tensor is there, not by its pointer (kernels_cl/common/memory.clh); only a kernel
itself asks which group it is, because nobody else knows where the kernel is called as a function
(csrc/cpu/kernel_function.h); structs that are passed to kernels stand in kernels_cl/params, which the host includes
too, but no header that is installed.

`python tools/check_layers.py` prints every violation and exits with 1 when there is one.
"""

import re
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parents[1] / "csrc"
KERNELS = CSRC.parent / "kernels_cl"
PUBLIC_HEADERS = CSRC.parent / "cmake" / "PublicHeaders.cmake"
# Folder of a file -> folders whose headers it may include. The longest folder that matches counts. `params` lies in
# kernels_cl.
MAY_INCLUDE = {
    "params": {"params"},
    "base": {"base"},
    "opencl": {"base", "opencl"},
    "cpu": {"base", "opencl", "cpu", "params"},
    "ops": {"base", "opencl", "ops", "params"},
    "ocl": {"base", "opencl", "ops", "ocl"},
    "onnxruntime": {"base", "opencl", "ops", "onnxruntime"},
    "torch/runtime": {"base", "opencl", "ops", "torch/runtime"},
    "torch/aten": {"base", "opencl", "ops", "torch/runtime", "torch/aten"},
    "torch/autograd": {"base", "opencl", "ops", "torch/runtime", "torch/autograd"},
    "torch/distributed": {"base", "opencl", "torch/runtime", "torch/distributed"},
    "torch/python": {
        "base",
        "opencl",
        "ops",
        "torch/runtime",
        "torch/aten",
        "torch/autograd",
        "torch/distributed",
        "torch/python",
    },
}
WITHOUT_TORCH = {"base", "opencl", "cpu", "ops", "ocl", "onnxruntime"}
CALLS_OPENCL = {"opencl", "cpu"}
TORCH_HEADER = re.compile(r"^(ATen|c10|torch/(csrc|library|all|extension|headeronly)|pybind11|Python\.h)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
INLINE_STATE = re.compile(r"^inline (?!const)[\w:<>, ]+ (\w+)(?: =|\{|;)", re.MULTILINE)
OPENCL_CALL = re.compile(r"(?<![\w.>:])cl(?:[A-Z][a-z]+)+[A-Za-z]*\s*\(")
VARIADIC = re.compile(r"^\s*#\s*define\s+\w+\([^)]*\.\.\.\s*\)", re.MULTILINE)
HELPER = re.compile(
    r"^(?:static |inline |__attribute__\(\(\w+\)\) )+[^;{]*\{(?:[^\n]*\}$|.*?^\})", re.MULTILINE | re.DOTALL
)
ASKS_GROUP = re.compile(r"\bget_(?:group_id|num_groups|global_id|global_size)\b")
# a tensor in a kernel's list, or in a macro that stands for one
TENSOR = re.compile(r"\bglobal\s(?:[^,(){};=]|\([^()]*\))*\*\s*(?:restrict\s+)?(\w+)\s*(?=[,)]|$)", re.MULTILINE)
STRUCT = re.compile(r"^typedef struct \w*\s*\{[^}]*\} (\w+);|^struct (\w+)\s*\{", re.MULTILINE)
KERNEL = re.compile(r"^(?:__kernel|kernel|[A-Z_]*KERNEL)\b[^{;]*\{", re.MULTILINE)
PARAMETERS = re.compile(r"^#define (?:[^\n]*\\\n)*[^\n]*\bglobal\b(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
BY_VALUE = re.compile(r"[(,]\s*(?:\\\n\s*)?(?:const )?(\w+) \w+\s*(?=[,)])")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def layer_of(path):
    """The folder of MAY_INCLUDE that a path below csrc/ (a file, or the name of a header) belongs to; None for headers
    of others."""
    parts = path.split("/")
    return next((name for n in (2, 1) if (name := "/".join(parts[:n])) in MAY_INCLUDE and len(parts) > n), None)


def violations():
    public = set(re.findall(r"^\s*([\w/]+\.h)$", PUBLIC_HEADERS.read_text(), re.MULTILINE))
    for file in sorted(CSRC.rglob("*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = file.relative_to(CSRC).as_posix()
        layer, text, where = layer_of(name), file.read_text(), f"csrc/{name}"
        if layer is None:
            yield f"{where}: lies in no layer"
            continue
        for header in INCLUDE.findall(text):
            other = layer_of(header)
            if other and other not in MAY_INCLUDE[layer]:
                yield f"{where}: {layer} must not include {header}"
            if other == "params" and name in public:
                yield f"{where}: is installed and must not include {header}"
            if layer in WITHOUT_TORCH and TORCH_HEADER.match(header):
                yield f"{where}: {layer} must not know PyTorch, but includes {header}"
        if file.suffix == ".h":
            for variable in INLINE_STATE.findall(text):
                yield f"{where}: every library would have a copy of {variable}: declare it extern"
        if layer not in CALLS_OPENCL:
            for call in OPENCL_CALL.findall(COMMENT.sub("", text)):
                yield f"{where}: {layer} calls OpenCL itself: {call.strip('( ')}"


def tested_pointers(text, included):
    """Conditions of a kernel file that are the pointer of a tensor argument, of its own or of the included text."""
    code = COMMENT.sub("", text)
    for name in sorted(set(TENSOR.findall(text + included))):
        value = rf"(?:\w+(?:\.|->))?{name}\b"
        after, before = rf"(?<![\w.>*&]){value}\s*(?:\?|&&|\|\|)", rf"(?:!|&&|\|\|)\s*{value}\s*(?:\)|;|\?|&&|\|\|)"
        alone = rf"\b(?:if|while)\s*\({value}\)"
        for found in re.findall(rf"{after}|{before}|{alone}", code):
            yield " ".join(found.split())


def passed_structs():
    """{name: file} of structs declared outside kernels_cl/params that kernels take by value."""
    files = {file.relative_to(KERNELS.parent): COMMENT.sub("", file.read_text()) for file in KERNELS.rglob("*.cl*")}
    declared = {a or b: where for where, text in sorted(files.items()) for a, b in STRUCT.findall(text)}
    parameters = "\n".join(text for all in files.values() for text in [*KERNEL.findall(all), *PARAMETERS.findall(all)])
    names = set(BY_VALUE.findall(parameters))
    return {name: where for name, where in declared.items() if name in names}


def kernel_violations():
    for name, where in passed_structs().items():
        yield f"{where}: {name} is passed to kernels: its place is kernels_cl/params"
    for file in sorted(KERNELS.rglob("*.cl*")):
        text, where = file.read_text(), file.relative_to(KERNELS.parent)
        for macro in VARIADIC.findall(text):
            yield f"{where}: a macro of any number of arguments:{macro.split('define')[1]}"
        headers = [KERNELS / name for name in INCLUDE.findall(text) if name.startswith(f"{file.parent.name}/")]
        for test in tested_pointers(text, "".join(header.read_text() for header in headers)):
            yield f"{where}: a tensor's pointer as a condition (HAS tells whether it is there): {test}"
        if file.suffix == ".clh" or re.search(r"^(?:CPU|TASK)_KERNEL\b", text, re.MULTILINE):
            for helper in HELPER.findall(text):
                if ASKS_GROUP.search(COMMENT.sub("", helper)):
                    yield f"{where}: a function asks which group it is: {helper.splitlines()[0]}"


if __name__ == "__main__":
    found = [*violations(), *kernel_violations()]
    print("\n".join(found) or "layers: ok")
    sys.exit(bool(found))
