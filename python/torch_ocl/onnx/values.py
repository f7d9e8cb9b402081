"""Values of a graph while it is imported."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import fx

from .host import Extent

# Constants of up to this many elements can be shape values.
SMALL = 1024


@dataclass(eq=False)
class Value:
    """A value of the ONNX graph. It has a form on the device, on the host, or both; each is emitted when first asked
    for, so that a chain of shapes leaves no operator on the device."""

    name: str
    element: int = 0  # ONNX's element type, 0 where unknown
    constant: Any = None  # a tensor on the CPU or an array of strings, where the value is known at import
    parameter: bool = False  # a constant that training changes
    node: fx.Node | None = None  # the form on the device
    host: Any = None  # the form on the host: a number, a list or an fx.Node; None where it has not been emitted
    extent: Extent | None = None  # set: the value has a form on the host
    later: Callable[[], fx.Node] | None = field(default=None, repr=False)  # emits the form on the device
    later_host: Callable[[], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.extent is None and self.is_small_constant():
            shape = self.constant.shape
            self.extent = Extent(len(shape), shape[0] if len(shape) else None)

    def is_small_constant(self) -> bool:
        """Whether it is a constant that serves as a number or a list."""
        constant = self.constant
        return (
            isinstance(constant, torch.Tensor)
            and not self.parameter
            and constant.dim() <= 1
            and constant.numel() <= SMALL
            and not constant.is_complex()
        )

    def is_constant(self) -> bool:
        """Known at import and not changed by training."""
        return self.constant is not None and not self.parameter

    def known(self) -> Any:
        """The value as a number or a list if it is known at import, else None."""
        if isinstance(self.constant, torch.Tensor) and not self.parameter:
            return to_python(self.constant)
        return None if isinstance(self.host, fx.Node) or not _is_static(self.host) else self.host


def _is_static(host: Any) -> bool:
    if isinstance(host, (list, tuple)):
        return all(_is_static(part) for part in host)
    return isinstance(host, (bool, int, float))


def to_python(tensor: torch.Tensor) -> Any:
    """Numbers of a constant, also of types for which tolist() is missing."""
    if tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point:
        tensor = tensor.float()
    return tensor.tolist()


def is_text(value: Any) -> bool:
    """Whether a constant is an array of strings."""
    return isinstance(value, numpy.ndarray)
