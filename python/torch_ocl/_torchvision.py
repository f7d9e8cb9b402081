"""torchvision for a PyTorch that its C++ operators were not built for.

torchvision from PyPI is built for PyTorch's builds for CUDA. Beside a build for the CPU its library of operators does
not load, and `import torchvision` ends with "operator torchvision::nms does not exist". This backend has kernels of its
own for the operators that detection models use, so only their declarations are missing: they are made here when the
import fails. On CPU tensors the operators then raise NotImplementedError.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from . import _imports

# torchvision's operators, which its library declares and its Python calls and registers derivatives of.
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int "
    "rois_zero_point, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool "
    "aligned) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool "
    "aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt "
    "pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> "
    "Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
    "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
    "offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt "
    "groups, SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_kept: list[torch.library.Library] = []  # operators are declared as long as their library lives


@contextlib.contextmanager
def _operators() -> Iterator[torch.library.Library]:
    """Context of an import of torchvision that finds its operators declared; gives the library that declares them."""
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.define("_cuda_version() -> int")
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    vars(torch.ops)["load_library"] = lambda path: None  # hides the method, which would fail again
    try:
        yield library
    finally:
        del vars(torch.ops)["load_library"]


class _Loader(importlib.abc.Loader):
    """Runs torchvision's own loader; a second time, with declared operators, when it fails for want of them."""

    def __init__(self, own: importlib.abc.Loader) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:  # what else a loader can do: resources, source text
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__:
            module.__spec__.loader = module.__loader__ = self._own
        try:
            self._own.exec_module(module)
        except RuntimeError as error:
            if "operator torchvision::" not in str(error):
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
                vars(module).pop(name.removeprefix("torchvision."), None)  # imported again only where it is missing
            with _operators() as library:
                _kept.append(library)
                self._own.exec_module(module)


def watch_import() -> None:
    """`import torchvision` works from now on, also where its C++ operators were built for another PyTorch."""
    _imports.wrap_loader("torchvision", _Loader)


def import_torchvision() -> ModuleType:
    """The module `torchvision`, for callers that import it when they need it.

    Raises ImportError when torchvision is not installed.
    """
    import torchvision

    module: ModuleType = torchvision
    return module
