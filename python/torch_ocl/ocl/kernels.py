"""Kernels of one's own in OpenCL C, called with tensors."""

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _core
from . import _lifetime
from ._utils import _get_device_index

# OpenCL C type: struct format of one value, dtypes that a pointer to it takes.
_TYPES = {
    "char": ("b", (torch.int8, torch.bool)),
    "uchar": ("B", (torch.uint8, torch.bool)),
    "short": ("h", (torch.int16,)),
    "ushort": ("H", (torch.uint16, torch.float16, torch.bfloat16)),
    "int": ("i", (torch.int32,)),
    "uint": ("I", (torch.uint32,)),
    "long": ("q", (torch.int64,)),
    "ulong": ("Q", (torch.uint64,)),
    "half": ("e", (torch.float16,)),
    "float": ("f", (torch.float32, torch.complex64)),
    "double": ("d", (torch.float64, torch.complex128)),
}
_SPELLINGS = {
    "unsigned char": "uchar", "signed char": "char", "unsigned short": "ushort", "signed short": "short",
    "unsigned int": "uint", "signed int": "int",
    "unsigned": "uint", "signed": "int", "unsigned long": "ulong", "signed long": "long", "long int": "long",
    "unsigned long int": "ulong", "short int": "short",
}  # fmt: skip
_QUALIFIERS = {
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__const",
    "__private",
    "private",
    "read_only",
    "__read_only",
}
_SPACES = {
    "global": "global",
    "__global": "global",
    "local": "local",
    "__local": "local",
    "constant": "constant",
    "__constant": "constant",
}


class LocalMemory:
    """An argument for a `__local` pointer: so many bytes for every work-group."""

    def __init__(self, bytes: int) -> None:
        if not isinstance(bytes, int) or bytes <= 0:
            raise ValueError(f"LocalMemory takes a positive number of bytes, not {bytes!r}")
        self.bytes = bytes


class _Parameter:
    """One parameter of a kernel: name, element type, vector width, address space of a pointer, whether the kernel may
    write to it."""

    def __init__(self, text: str) -> None:
        words = re.findall(r"\w+|\*", text)
        self.text = " ".join(text.split())
        self.pointer = words.count("*")
        self.space = next((_SPACES[word] for word in words if word in _SPACES), None)
        self.constant = "const" in words or "__const" in words or self.space == "constant"
        plain = [word for word in words if word != "*" and word not in _SPACES and word not in _QUALIFIERS]
        if len(plain) < 2:
            raise ValueError(f"cannot read the kernel parameter {self.text!r}: expected a type and a name")
        *type_words, self.name = plain
        spelled = " ".join(type_words)
        spelled = _SPELLINGS.get(spelled, spelled)
        match = re.fullmatch(r"([a-z]+?)(2|3|4|8|16)?", spelled)
        self.width = int(match[2]) if match and match[2] else 1
        self.base = match[1] if match else spelled
        self.type = spelled
        if self.pointer > 1 or (self.base not in _TYPES and not (spelled == "void" and self.pointer)):
            raise ValueError(
                f"the kernel parameter {self.text!r} has a type that cannot be passed; known are {', '.join(_TYPES)}, "
                f"their vectors and pointers to them"
            )
        if self.pointer and self.space not in ("global", "local"):
            raise ValueError(
                f"the kernel parameter {self.text!r} must point to __global (a tensor) or __local (LocalMemory) memory"
            )


def _without_comments(source: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda match: "\n" * match[0].count("\n") or " ", source, flags=re.DOTALL)


# A kernel up to its list of parameters: its attributes with `void`, and its name.
_HEAD = re.compile(
    r"\b(?:__kernel|kernel)\b((?:\s|__attribute__\s*\(\(.*?\)\)\s*|\bvoid\b)*)\b(\w+)\s*\(", flags=re.DOTALL
)


def _kernels(source: str) -> dict[str, str]:
    """{name: parameters as text} of every kernel in the source."""
    found = {}
    text = _without_comments(source)
    for match in _HEAD.finditer(text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found[match[2]] = text[match.end() : end - 1]
    return found


def _enterable(source: str, name: str, parameters: Sequence["_Parameter"]) -> tuple[str, str]:
    """A source that compiles, and the kernel in it that runs kernel `name`. A tensor reaches a kernel as a buffer and
    an offset, so kernels cannot call each other: those that are called become functions."""
    text = _without_comments(source)
    heads = {match[2]: match for match in _HEAD.finditer(text)}
    times = [match[2] for match in _HEAD.finditer(text)]
    called = {other for other in heads if len(re.findall(rf"\b{other}\s*\(", text)) > times.count(other)}
    if not called:
        return source, name
    text = _HEAD.sub(lambda m: "\n" * m[0].count("\n") + f"void {m[2]}(" if m[2] in called else m[0], text)
    if name not in called:
        return text, name
    outer, inner = ", ".join(p.text for p in parameters), ", ".join(p.name for p in parameters)
    return f"{text}\nkernel {heads[name][1]} {name}_entered({outer}) {{ {name}({inner}); }}", f"{name}_entered"


class CompiledKernel:
    """A kernel that is called with tensors and numbers in the order of its parameters; made by compile_kernel()."""

    def __init__(self, source: str, name: str | None = None, defines: Mapping[str, object] | None = None) -> None:
        kernels = _kernels(source)
        if not kernels:
            raise ValueError("there is no `__kernel void name(...)` in the source")
        if name is None:
            if len(kernels) > 1:
                raise ValueError(f"the source has several kernels; say which one: {', '.join(kernels)}")
            name = next(iter(kernels))
        if name not in kernels:
            raise ValueError(f"there is no kernel {name!r} in the source; it has {', '.join(kernels)}")
        parameters = kernels[name]
        self.name = name
        self.parameters = (
            [_Parameter(text) for text in parameters.split(",")] if parameters.strip() not in ("", "void") else []
        )
        macros = "".join(
            f"#define {key} {int(value) if isinstance(value, bool) else value}\n"
            for key, value in (defines or {}).items()
        )
        text, self._entered = _enterable(source, name, self.parameters)
        self._source = f"{macros}{text}\n"
        self._handles: dict[int, int] = {}

    def _handle(self, index: int) -> int:
        if index not in self._handles:
            self._handles[index] = _core.core().custom_kernel(index, self._entered, self._source)
        return self._handles[index]

    def _error(self, kind: type[Exception], parameter: _Parameter, what: str) -> Exception:
        position = self.parameters.index(parameter) + 1
        return kind(f"argument {position} ({parameter.text}) of kernel {self.name}: {what}")

    def _tensor(self, parameter: _Parameter, value: object, device: torch.device) -> int:
        if not isinstance(value, torch.Tensor):
            raise self._error(TypeError, parameter, f"expected a tensor, got {type(value).__name__}")
        if value.device != device:
            raise self._error(
                RuntimeError,
                parameter,
                f"expected all tensors to be on the same ocl device, but found {device} and {value.device}",
            )
        if parameter.type != "void":
            known = _TYPES[parameter.base][1]
            if value.dtype not in known:
                raise self._error(
                    TypeError, parameter, f"expected a tensor of {' or '.join(map(str, known))}, got {value.dtype}"
                )
            elements = value.numel() * (2 if value.is_complex() else 1)
            if parameter.width > 1 and elements % parameter.width:
                raise self._error(ValueError, parameter, f"{elements} elements are no whole number of {parameter.type}")
        if not value.is_contiguous() or value.is_conj() or value.is_neg():
            raise self._error(
                ValueError,
                parameter,
                f"expected a contiguous tensor, got sizes {tuple(value.shape)} with strides {value.stride()}",
            )
        if not parameter.constant and value.requires_grad and torch.is_grad_enabled():
            raise self._error(
                RuntimeError,
                parameter,
                "the kernel writes to a tensor that requires grad; declare it const, or use torch.no_grad()",
            )
        needed = (value.storage_offset() + value.numel()) * value.element_size()
        if value.numel() and needed > value.untyped_storage().nbytes():
            raise self._error(
                RuntimeError,
                parameter,
                f"sizes {tuple(value.shape)} requiring a storage size of {needed} are out of bounds for storage of size"
                f" {value.untyped_storage().nbytes()}",
            )
        return value.data_ptr()

    def _number(self, parameter: _Parameter, value: Any) -> bytes:
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        if len(values) != parameter.width:
            raise self._error(ValueError, parameter, f"expected {parameter.width} number(s), got {len(values)}")
        letter = _TYPES[parameter.base][0]
        kinds: tuple[type, ...] = (int, float) if letter in "efd" else (int,)
        for number in values:
            if not isinstance(number, kinds):
                raise self._error(TypeError, parameter, f"expected {parameter.type}, got {type(number).__name__}")
        try:
            return struct.pack(
                f"={4 if parameter.width == 3 else parameter.width}{letter}",
                *values,
                *([0] if parameter.width == 3 else []),
            )
        except (struct.error, OverflowError) as error:
            raise self._error(ValueError, parameter, str(error)) from None

    def _argument(self, parameter: _Parameter, value: object, device: torch.device) -> bytes | int | tuple[int]:
        if parameter.space == "local":
            if not isinstance(value, LocalMemory):
                raise self._error(
                    TypeError, parameter, f"expected torch.ocl.LocalMemory(bytes), got {type(value).__name__}"
                )
            return (value.bytes,)
        return self._tensor(parameter, value, device) if parameter.pointer else self._number(parameter, value)

    @staticmethod
    def _range(value: int | Sequence[int], what: str) -> list[int]:
        sizes = [value] if isinstance(value, int) else list(value)
        if not 1 <= len(sizes) <= 3 or not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"{what} is 1 to 3 numbers of work-items, not {value!r}")
        return sizes

    def __call__(
        self,
        *arguments: Any,
        global_size: int | Sequence[int] | None = None,
        local_size: int | Sequence[int] | None = None,
    ) -> None:
        """Runs on the current stream.

        `global_size`: work-items in 1 to 3 dimensions, as many as the first tensor has elements when not given;
        `local_size`: work-items per work-group, chosen by the driver when not given."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"kernel {self.name} takes {len(self.parameters)} arguments ({len(arguments)} given)")
        first = next((value for value in arguments if isinstance(value, torch.Tensor)), None)
        if first is None and global_size is None:
            raise ValueError(f"kernel {self.name} has no tensor argument: say global_size")
        device = first.device if first is not None else torch.device("ocl", _get_device_index())
        if device.type != "ocl":
            raise RuntimeError(f"kernel {self.name} runs on ocl devices, but its first tensor is on {device}")
        values = [
            self._argument(parameter, value, device)
            for parameter, value in zip(self.parameters, arguments, strict=True)
        ]
        elements = first.numel() if first is not None else 0
        items = self._range(elements if global_size is None else global_size, "global_size")
        group = [] if local_size is None else self._range(local_size, "local_size")
        if group and (len(group) != len(items) or any(n == 0 or m % n for m, n in zip(items, group, strict=True))):
            raise ValueError(f"global_size {tuple(items)} is no multiple of local_size {tuple(group)}")
        _core.core().launch_custom_kernel(self._handle(_get_device_index(device)), items, group, values)
        for parameter, value in zip(self.parameters, arguments, strict=True):
            if isinstance(value, torch.Tensor) and not parameter.constant:
                torch.autograd.graph.increment_version(value)

    def __repr__(self) -> str:
        return f"torch.ocl.CompiledKernel({self.name}({', '.join(parameter.text for parameter in self.parameters)}))"


def compile_kernel(
    source: str, name: str | None = None, *, defines: Mapping[str, object] | None = None
) -> CompiledKernel:
    """Compiles the kernel `name` of OpenCL C `source` (its only kernel when not given) and returns a callable.

        scale = torch.ocl.compile_kernel("__kernel void scale(__global float* x, float a) { x[get_global_id(0)] *= a;
        }") scale(x, 2.0)

    Tensors stand for `__global` pointers, starting at their first element (storage offset included), numbers for
    values, torch.ocl.LocalMemory(bytes) for `__local` pointers. Tensors must be contiguous, on one device and of the
    pointer's type. `defines`: {name: value} of macros. Compiled programs are kept on disk. Raises ValueError for a
    source without the kernel and RuntimeError with the driver's log when it does not compile.
    """
    _lifetime._lazy_init()
    kernel = CompiledKernel(source, name, defines)
    kernel._handle(_get_device_index())
    return kernel
