"""The module that an imported model is."""

import types as python_types
from typing import Any

import torch
from torch import fx

from .errors import ModelError

# Exceptions that a row of the table or an ATen operator raises for bad inputs. While tracing, torch.export and
# torch.compile need to see their own exceptions as they are.
_OF_INPUTS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    NotImplementedError,
    OverflowError,
    ArithmeticError,
)


class OnnxModule(fx.GraphModule):
    """An imported graph. Errors of its operators name the ONNX node that they belong to."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if "_anchor" in self._buffers:
            self._non_persistent_buffers_set.add("_anchor")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return super().__call__(*inputs, **named)
        try:
            return super().__call__(*inputs, **named)
        except (ModelError, torch.OutOfMemoryError):
            raise
        except _OF_INPUTS as error:
            if type(error).__module__.startswith("torch.") and not isinstance(error, torch.AcceleratorError):
                raise
            place = self._place(error.__traceback__)
            if place is None:
                raise
            raise ModelError(str(error)).at(place) from error

    def _place(self, traceback: python_types.TracebackType | None) -> str | None:
        """The ONNX node behind the innermost line of generated code in the traceback."""
        code = self.forward.__code__ if hasattr(self.forward, "__code__") else None
        line = None
        while traceback is not None:
            if traceback.tb_frame.f_code is code:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        if line is None or code is None:
            return None
        numbers = getattr(self.graph.python_code("self"), "_lineno_map", None) or {}
        nodes = list(self.graph.nodes)
        index = numbers.get(line - code.co_firstlineno + 1, numbers.get(line))
        return nodes[index].meta.get("onnx") if index is not None and index < len(nodes) else None
