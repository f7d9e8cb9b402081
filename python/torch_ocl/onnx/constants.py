"""Reading models and their constant tensors. Data outside the model file is mapped, not read."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, numpy_helper

from . import types
from .errors import ModelError


def read_model(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """The model of a path, of bytes or of a ModelProto, and the folder that its external data is relative to.

    A path may end in .onnx, .onnxtxt, .json, ...: onnx.load knows the formats.
    """
    if isinstance(source, onnx.ModelProto):
        return source, None
    try:
        if isinstance(source, (bytes, bytearray)):
            model, folder = onnx.load_model_from_string(bytes(source)), None
        elif isinstance(source, (str, os.PathLike)):
            path = Path(source)
            model, folder = onnx.load_model(str(path), load_external_data=False), path.resolve().parent
        else:
            raise TypeError(f"expected a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    except (OSError, TypeError):
        raise
    except Exception as error:  # google.protobuf's, which differ between its versions
        raise ModelError(f"{_describe(source)} is not an ONNX model or is truncated: {error}") from error
    if not model.HasField("graph"):
        raise ModelError(f"{_describe(source)} is not an ONNX model or is truncated: it has no graph")
    return model, folder


def _describe(source: Any) -> str:
    return f"a text of {len(source)} bytes" if isinstance(source, (bytes, bytearray)) else f"'{source}'"


def read_tensor(proto: TensorProto, folder: Path | None) -> Any:
    """The tensor of `proto` on the CPU (an array of strings for STRING). ModelError if the data does not fit."""
    try:
        return types.from_numpy(_array(proto, folder), proto.data_type)
    except (ValueError, TypeError, KeyError, OverflowError, OSError) as error:
        raise ModelError(f"tensor '{proto.name}' cannot be read: {error}") from error


def _array(proto: TensorProto, folder: Path | None) -> Any:
    if any(size < 0 for size in proto.dims):
        raise ValueError(f"it has the shape {list(proto.dims)}")
    if proto.data_type != types.STRING:
        types.dtype_of(proto.data_type)
    if proto.data_location == TensorProto.EXTERNAL:
        return _map_external(proto, folder)
    if proto.HasField("raw_data"):
        expected = _raw_bytes(proto)
        if len(proto.raw_data) != expected:
            raise ValueError(f"shape {list(proto.dims)} needs {expected} bytes, it has {len(proto.raw_data)}")
    return numpy_helper.to_array(proto)


def _bits(element: int) -> int:
    if element in (types.UINT4, types.INT4, types.FLOAT4E2M1):
        return 4
    return 2 if element in (types.UINT2, types.INT2) else 8 * int(types.item_size(element))


def _raw_bytes(proto: TensorProto) -> int:
    bits = int(math.prod(proto.dims)) * _bits(proto.data_type)
    return -(-bits // 8)


def _map_external(proto: TensorProto, folder: Path | None) -> Any:
    """Only a path tells where the data lies. Locations outside the model's folder are refused."""
    if folder is None:
        raise ValueError("its data is in another file; load the model by its path, that gives the folder")
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    file = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not file.is_relative_to(folder):
        raise ValueError(f"its data lies at '{location}', outside the folder of the model")
    if not file.is_file():
        raise ValueError(f"its data file '{file}' does not exist")
    offset = int(entries.get("offset", 0))
    needed = _raw_bytes(proto)
    length = int(entries.get("length", needed))
    if length != needed or offset < 0 or offset + needed > file.stat().st_size:
        raise ValueError(
            f"shape {list(proto.dims)} needs {needed} bytes at {offset} of '{file.name}', which has {length} in "
            f"a file of {file.stat().st_size}"
        )
    if needed == 0:
        return numpy.zeros(tuple(proto.dims), types.numpy_type(proto.data_type))
    # Copy on write: training may change the tensor, the file stays as it is.
    raw = numpy.memmap(file, numpy.uint8, "c", offset, (needed,))
    if _bits(proto.data_type) < 8:
        inline = TensorProto(data_type=proto.data_type, dims=proto.dims, raw_data=raw.tobytes(), name=proto.name)
        return numpy_helper.to_array(inline)
    array = numpy.asarray(raw).view(types.numpy_type(proto.data_type)).reshape(tuple(proto.dims))
    return array if sys.byteorder == "little" else array.byteswap()
