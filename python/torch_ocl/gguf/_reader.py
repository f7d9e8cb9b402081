"""Reads GGUF files: metadata, and tensors as memory-mapped bytes."""

import math
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any

import torch

from ._blocks import TYPES, Type

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMS = 8


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file. `shape`: the outermost dimension first; `type`: how it is stored; `data`: the bytes of its
    rows, uint8 [..., bytes of a row], which are read from the file when they are used."""

    name: str
    shape: tuple[int, ...]
    type: Type
    data: torch.Tensor


class _Cursor:
    """Reads little-endian values one after another."""

    def __init__(self, blob: mmap.mmap, path: str) -> None:
        self.blob, self.path, self.at = blob, path, 0

    def take(self, form: str, count: int = 1) -> tuple[Any, ...]:
        """`count` numbers of a type of `struct`."""
        size = struct.calcsize("<" + form) * count
        if count < 0 or self.at + size > len(self.blob):
            raise ValueError(f"{self.path} ends inside its header: it is truncated or no GGUF file")
        values = struct.unpack_from(f"<{count}{form}", self.blob, self.at)
        self.at += size
        return values

    def string(self) -> str:
        """A length and so many bytes of UTF-8."""
        (length,) = self.take("Q")
        if length > len(self.blob) - self.at:
            raise ValueError(f"{self.path} ends inside its header: it is truncated or no GGUF file")
        text = self.blob[self.at : self.at + length].decode("utf-8", "replace")
        self.at += length
        return text

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of metadata."""
        if kind in _NUMBERS:
            return self.take(_NUMBERS[kind])[0]
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY or depth > 4:
            raise ValueError(f"{self.path}: metadata of the unknown type {kind}")
        inner, count = self.take("IQ")
        if inner in _NUMBERS:
            return list(self.take(_NUMBERS[inner], count))
        if count > len(self.blob):
            raise ValueError(f"{self.path}: an array of {count} values does not fit into the file")
        return [self.value(inner, depth + 1) for _ in range(count)]


class File:
    """A GGUF file (versions 2 and 3): `metadata` by key, `tensors` by name.

    Raises:
        OSError: Where the file cannot be read.
        ValueError: Where it is no GGUF file, is truncated, or has tensors of a type that is not known.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        size = os.path.getsize(self.path)
        if size < 24:
            raise ValueError(f"{self.path} is no GGUF file")
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as blob:
            if blob[:4] != b"GGUF":
                raise ValueError(f"{self.path} is no GGUF file")
            cursor = _Cursor(blob, self.path)
            cursor.at = 4
            (version,) = cursor.take("I")
            if version not in (2, 3):
                raise ValueError(f"{self.path} is GGUF version {version}; 2 and 3 can be read")
            tensors, keys = cursor.take("Q", 2)
            self.metadata: dict[str, Any] = {}
            for _ in range(keys):
                key = cursor.string()
                self.metadata[key] = cursor.value(cursor.take("I")[0])
            entries = [self._entry(cursor) for _ in range(tensors)]
            alignment = int(self.metadata.get("general.alignment", 32))
            if alignment <= 0:
                raise ValueError(f"{self.path}: general.alignment is {alignment}")
            start = -(-cursor.at // alignment) * alignment
        # A private mapping: pages are read when they are used, and the file is never written.
        bytes_ = torch.from_file(self.path, shared=False, size=size, dtype=torch.uint8)
        self.tensors = {name: self._tensor(bytes_, start, name, shape, *at) for name, shape, *at in entries}

    def _entry(self, cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
        name = cursor.string()
        (dims,) = cursor.take("I")
        if dims > _MAX_DIMS:
            raise ValueError(f"{self.path}: {name} has {dims} dimensions")
        shape = tuple(reversed(cursor.take("Q", dims)))
        kind, offset = cursor.take("I")[0], cursor.take("Q")[0]
        return name, shape, kind, offset

    def _tensor(self, blob: torch.Tensor, start: int, name: str, shape: tuple[int, ...], kind: int, at: int) -> Tensor:
        if kind not in TYPES:
            known = ", ".join(type_.name for type_ in TYPES.values())
            raise ValueError(f"{self.path}: {name} is stored as type {kind} of ggml, which is not known ({known} are)")
        type_ = TYPES[kind]
        columns = shape[-1] if shape else 1
        if columns % type_.weights:
            raise ValueError(f"{self.path}: {name} has rows of {columns} elements, no multiple of {type_.weights}")
        row = columns // type_.weights * type_.bytes
        rows = math.prod(shape[:-1])
        begin = start + at
        if begin + rows * row > len(blob):
            raise ValueError(f"{self.path} ends before {name}: it is truncated")
        data = blob[begin : begin + rows * row].view(*shape[:-1], row) if shape else blob[begin : begin + row]
        return Tensor(name, shape, type_, data)

    @property
    def architecture(self) -> str:
        """What kind of model it is, in llama.cpp's words: llama, qwen2, ..."""
        return str(self.metadata.get("general.architecture", ""))
