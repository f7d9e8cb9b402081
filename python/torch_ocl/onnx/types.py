"""Element types of ONNX, as PyTorch and numpy hold them.

PyTorch has no usable 4-bit and 2-bit types. Their values are held one per element in the next larger type: int8 and
uint8 for integers, float32 for float4. The importer keeps ONNX's type beside the value, so that casts and results are
exact.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy
import torch
from onnx import TensorProto

FLOAT, UINT8, INT8, UINT16, INT16 = 1, 2, 3, 4, 5
INT32, INT64, STRING, BOOL, FLOAT16 = 6, 7, 8, 9, 10
DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128 = 11, 12, 13, 14, 15
BFLOAT16, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ = 16, 17, 18, 19, 20
UINT4, INT4, FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2 = 21, 22, 23, 24, 25, 26

# ONNX's type: PyTorch's type that holds it, numpy's type outside.
_ROWS: dict[int, tuple[torch.dtype, Any]] = {
    FLOAT: (torch.float32, numpy.float32),
    UINT8: (torch.uint8, numpy.uint8),
    INT8: (torch.int8, numpy.int8),
    UINT16: (torch.uint16, numpy.uint16),
    INT16: (torch.int16, numpy.int16),
    INT32: (torch.int32, numpy.int32),
    INT64: (torch.int64, numpy.int64),
    BOOL: (torch.bool, numpy.bool_),
    FLOAT16: (torch.float16, numpy.float16),
    DOUBLE: (torch.float64, numpy.float64),
    UINT32: (torch.uint32, numpy.uint32),
    UINT64: (torch.uint64, numpy.uint64),
    COMPLEX64: (torch.complex64, numpy.complex64),
    COMPLEX128: (torch.complex128, numpy.complex128),
    BFLOAT16: (torch.bfloat16, ml_dtypes.bfloat16),
    FLOAT8E4M3FN: (torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    FLOAT8E4M3FNUZ: (torch.float8_e4m3fnuz, ml_dtypes.float8_e4m3fnuz),
    FLOAT8E5M2: (torch.float8_e5m2, ml_dtypes.float8_e5m2),
    FLOAT8E5M2FNUZ: (torch.float8_e5m2fnuz, ml_dtypes.float8_e5m2fnuz),
    FLOAT8E8M0: (torch.float8_e8m0fnu, ml_dtypes.float8_e8m0fnu),
    UINT4: (torch.uint8, ml_dtypes.uint4),
    INT4: (torch.int8, ml_dtypes.int4),
    UINT2: (torch.uint8, ml_dtypes.uint2),
    INT2: (torch.int8, ml_dtypes.int2),
    FLOAT4E2M1: (torch.float32, ml_dtypes.float4_e2m1fn),
}
_PACKED = {UINT4, INT4, UINT2, INT2, FLOAT4E2M1}
_ELEMENT_OF = {dtype: element for element, (dtype, _) in reversed(_ROWS.items()) if element not in _PACKED}
# Types that numpy knows only through ml_dtypes and PyTorch takes as bits: the integer of their width.
_BITS: dict[int, tuple[Any, torch.dtype]] = {
    BFLOAT16: (numpy.int16, torch.bfloat16),
    **{
        element: (numpy.uint8, _ROWS[element][0])
        for element in (FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT8E8M0)
    },
}

INTEGER_RANGES = {
    UINT2: (0, 3),
    INT2: (-2, 1),
    UINT4: (0, 15),
    INT4: (-8, 7),
    UINT8: (0, 255),
    INT8: (-128, 127),
    UINT16: (0, 65535),
    INT16: (-32768, 32767),
    INT32: (-(2**31), 2**31 - 1),
}
FLOAT8 = {
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
}
WIDE_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}

# What values are outside the module: tensors, string arrays, lists (sequences), None (empty optionals).
Value = Any


def name_of(element: int) -> str:
    """ONNX's name of an element type: 1 is "FLOAT"."""
    return str(TensorProto.DataType.Name(element)) if element in TensorProto.DataType.values() else f"type {element}"


def dtype_of(element: int) -> torch.dtype:
    """The type of PyTorch that holds `element`; TypeError for strings and unknown numbers."""
    if element not in _ROWS:
        raise TypeError(f"tensors of {name_of(element)} do not exist in PyTorch")
    return _ROWS[element][0]


def element_of(dtype: torch.dtype) -> int:
    """ONNX's type of PyTorch's `dtype`."""
    return _ELEMENT_OF[dtype]


def item_size(element: int) -> float:
    """Bytes of one element as numpy arrays hold it."""
    return int(numpy.dtype(_ROWS[element][1]).itemsize)


def numpy_type(element: int) -> Any:
    """numpy's type of `element` outside the module."""
    return _ROWS[element][1]


def from_numpy(array: Any, element: int = 0) -> Value:
    """A tensor on the CPU with the array's values; arrays of strings stay as they are.

    `element` says what ONNX type is wanted; 0 takes the array's own.
    """
    array = numpy.asarray(array)
    if array.dtype.kind in "OUS" or element == STRING:
        return array.astype(object)
    if element == 0:
        element = _element_of_array(array)
    if element in _PACKED:
        holder = {torch.int8: numpy.int8, torch.uint8: numpy.uint8, torch.float32: numpy.float32}[dtype_of(element)]
        return torch.from_numpy(array.astype(holder))
    if array.dtype != numpy_type(element):
        raise TypeError(f"expected {name_of(element)}, got an array of {array.dtype}")
    if not array.flags.c_contiguous or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C").reshape(array.shape)
    if element in _BITS:
        bits, dtype = _BITS[element]
        return _wrap(array.view(bits)).view(dtype)
    return _wrap(array)


def _wrap(array: Any) -> torch.Tensor:
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _element_of_array(array: Any) -> int:
    for element, (_, kind) in _ROWS.items():
        if array.dtype == numpy.dtype(kind):
            return element
    raise TypeError(f"arrays of {array.dtype} have no ONNX type")


def to_numpy(value: Value, element: int = 0) -> Any:
    """The value as numpy holds it: arrays, lists of arrays for sequences, None for an empty optional."""
    if value is None or isinstance(value, numpy.ndarray):
        return value
    if isinstance(value, list):
        return [to_numpy(part, element) for part in value]
    if isinstance(value, dict):
        return {key: to_numpy(part, element) for key, part in value.items()}
    if isinstance(value, (bool, int, float)):
        return numpy.asarray(value)
    tensor = value.detach().cpu()
    own = _ELEMENT_OF[tensor.dtype]
    if own in _BITS:
        bits = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
        array = tensor.contiguous().view(bits).numpy().view(numpy_type(own))
    else:
        array = tensor.resolve_conj().resolve_neg().numpy()
    if element in _PACKED and dtype_of(element) == tensor.dtype:
        array = array.astype(numpy_type(element))
    return array


def common_device(values: Sequence[Value]) -> torch.device | None:
    """The device of the first tensor among `values`, also inside lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, (list, tuple)) and (found := common_device(value)) is not None:
            return found
    return None
