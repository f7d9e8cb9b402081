"""torchvision for a PyTorch that its C++ operators were not built for. Models do not need these operators."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch

# What torchvision's Python wants to have been declared when it is imported.
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept: list[Any] = []  # operators are declared as long as their library lives


@contextlib.contextmanager
def _declared() -> Iterator[torch.library.Library]:
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    yield library


def import_torchvision(operators: Callable[[], AbstractContextManager[Any]] = _declared) -> ModuleType:
    """The module `torchvision`, also where its C++ operators were built for another PyTorch: its models work then.

    `operators` is the context of the second import where the first one fails. It makes the operators instead of the
    library and gives what has to live as long as they do; without it they are declared and cannot be called.
    Raises ImportError when torchvision is not installed.
    """
    try:
        import torchvision
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        with operators() as kept:
            _kept.append(kept)
            import torchvision
    module: ModuleType = torchvision
    return module
