"""Blocks of mobile networks as one call, for `torch_ocl.optimize`.

A block is [1x1 convolution] -> depthwise convolution -> [squeeze and excite] -> 1x1 convolution [+ input], each with
its activation. On CPU runtimes of `ocl` the tensors between the convolutions stay in the processor's caches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._limits import limited_convolution

LANES = 32  # of the packed weights: csrc/ops/conv/separable.h


@dataclass(frozen=True)
class Activation:
    """clamp to [low, high], or one of the functions that csrc/ops/conv/separable.h knows."""

    kind: int = 0
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, x: Tensor) -> Tensor:
        """The activation of x; x may be written."""
        if self.kind:
            return _FUNCTIONS[self.kind](x)
        if (self.low, self.high) == (-math.inf, math.inf):
            return x
        return x.clamp_(None if self.low == -math.inf else self.low, None if self.high == math.inf else self.high)

    def numbers(self) -> list[float]:
        """As the operators take it."""
        return [float(self.kind), self.low, self.high]


_FUNCTIONS: dict[int, Callable[[Tensor], Tensor]] = {
    1: lambda x: F.hardswish(x, True),
    2: lambda x: F.silu(x, True),
    3: lambda x: F.hardsigmoid(x, True),
    4: torch.sigmoid,
}
HARDSWISH, SILU, HARDSIGMOID, SIGMOID = (Activation(kind) for kind in (1, 2, 3, 4))
IDENTITY = Activation()


@dataclass
class Convolution:
    """A convolution of two dimensions and its activation. weight: [O, C / groups, K, K]."""

    weight: Tensor
    bias: Tensor | None
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    groups: int = 1
    activation: Activation = IDENTITY

    def __call__(self, x: Tensor) -> Tensor:
        """activation(convolution(x))"""
        stride, dilation = [self.stride] * 2, [1, 1]
        if self.activation.kind == 0 and self.activation != IDENTITY:
            limits = self.activation.low, self.activation.high
            return limited_convolution(x, self.weight, self.bias, stride, self.padding, dilation, self.groups, *limits)
        return self.activation(F.conv2d(x, self.weight, self.bias, stride, self.padding, dilation, self.groups))


def _packed(weight: Tensor, rows: int = LANES) -> Tensor:
    """[panel][k][lane] of a matrix [O, k], k filled up with zeros to a multiple of `rows`."""
    out, k = weight.shape
    padded = F.pad(weight, (0, -k % rows, 0, -out % LANES))
    return padded.view(-1, LANES, padded.shape[1]).transpose(1, 2).contiguous()


def _packed_bias(bias: Tensor | None, weight: Tensor) -> Tensor:
    out = weight.shape[0]
    return F.pad(weight.new_zeros(out) if bias is None else bias, (0, -out % LANES)).contiguous()


def _parameter(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)


class _Packing(nn.Module):
    """What keeps packed weights of its convolutions while they stay the same."""

    def __init__(self, convolutions: dict[str, Convolution | None]) -> None:
        super().__init__()
        self._convolutions: dict[str, Convolution] = {}  # without their tensors, which are parameters
        for name, part in convolutions.items():
            if part is None:
                continue
            self._convolutions[name] = replace(part, weight=torch.empty(0), bias=None)
            self.register_parameter(f"{name}_weight", _parameter(part.weight))
            self.register_parameter(f"{name}_bias", None if part.bias is None else _parameter(part.bias))
        first = next(part for part in convolutions.values() if part is not None)
        self._sources = first.weight.shape[1] * first.groups
        self._packed: Any = None
        self._packed_of: tuple[int, ...] = ()

    def _apply(self, *arguments: Any, **options: Any) -> Any:
        self._packed = None
        return super()._apply(*arguments, **options)

    def _convolution(self, name: str) -> Convolution:
        """With the parameters that the module has now."""
        weight, bias = self._parameters[f"{name}_weight"], self._parameters[f"{name}_bias"]
        assert weight is not None
        return replace(self._convolutions[name], weight=weight, bias=bias)

    def _usable(self, x: Tensor) -> bool:
        """Whether the operators of `ocl` take x; packs the weights where they have changed."""
        if x.device.type != "ocl" or x.dtype != torch.float32 or x.dim() != 4 or x.shape[1] != self._sources:
            return False
        if torch.is_grad_enabled() or torch.is_autocast_enabled("ocl") or torch.compiler.is_compiling():
            return False
        version = tuple(id(p) + p._version for p in self._parameters.values() if p is not None)
        if self._packed is None or version != self._packed_of:
            parameters = [p for p in self._parameters.values() if p is not None]
            if any(p.device != x.device or p.dtype != torch.float32 for p in parameters):
                return False
            self._packed, self._packed_of = self._pack(), version
        return True

    def _pack(self) -> Any:
        raise NotImplementedError


class SeparableBlock(_Packing):
    """[expand] -> depthwise -> [x scaled by excite(squeeze(mean of x))] -> project, plus the input if `residual`."""

    def __init__(
        self,
        depthwise: Convolution,
        project: Convolution,
        expand: Convolution | None = None,
        squeeze: Convolution | None = None,
        excite: Convolution | None = None,
        residual: bool = False,
    ) -> None:
        super().__init__(
            {"expand": expand, "depthwise": depthwise, "squeeze": squeeze, "excite": excite, "project": project}
        )
        self.residual = residual
        width, kernel = depthwise.weight.shape[0], depthwise.weight.shape[-1]
        hidden = 0 if squeeze is None else squeeze.weight.shape[0]
        self._shape = [
            width, project.weight.shape[0], hidden, kernel, depthwise.stride, *depthwise.padding,
            int(expand is not None), int(residual),
        ]  # fmt: skip
        order = (expand, depthwise, project, squeeze, excite)
        self._activations = [n for part in order for n in (part.activation if part else IDENTITY).numbers()]
        self._fits: dict[tuple[Any, ...], bool] = {}

    def _pack(self) -> Any:
        expand, depthwise, squeeze, excite, project = (
            self._convolution(name) if name in self._convolutions else None
            for name in ("expand", "depthwise", "squeeze", "excite", "project")
        )
        assert depthwise is not None and project is not None
        width, hidden = self._shape[0], self._shape[2]
        self._fits = {}

        def matrix(part: Convolution, rows: int = 1) -> list[Tensor]:
            return [_packed(part.weight.flatten(1), rows), _packed_bias(part.bias, part.weight)]

        def plain(part: Convolution, weight: Tensor) -> list[Tensor]:
            bias = part.weight.new_zeros(part.weight.shape[0]) if part.bias is None else part.bias
            return [weight.contiguous(), bias.contiguous()]

        excited: list[Tensor] = []
        if squeeze is not None and excite is not None:
            excited = plain(squeeze, squeeze.weight.view(hidden, width))
            excited += plain(excite, excite.weight.view(width, hidden).t())
        return matrix(expand) if expand else [], matrix(depthwise), excited, matrix(project, 1 if excited else LANES)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, C, H, W]"""
        if self._usable(x):
            key = (x.shape, x.device)
            fits = self._fits.get(key)
            if fits is None:
                if len(self._fits) > 100:
                    self._fits.clear()
                fits = self._fits[key] = torch.ops.ocl.separable_fits(x, self._shape)
            if fits:
                y: Tensor = torch.ops.ocl.separable_convolution(x, *self._packed, self._shape, self._activations)
                return y
        return self._plain(x)

    def _plain(self, x: Tensor) -> Tensor:
        y = self._convolution("expand")(x) if "expand" in self._convolutions else x
        y = self._convolution("depthwise")(y)
        if "squeeze" in self._convolutions:
            mean = F.adaptive_avg_pool2d(y, 1)
            y = y * self._convolution("excite")(self._convolution("squeeze")(mean))
        y = self._convolution("project")(y)
        return y + x if self.residual else y


class PackedPointwise(_Packing):
    """A 1x1 convolution with its activation, for channels-last images."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__({"only": convolution})
        self._results = convolution.weight.shape[0]
        self._activation = convolution.activation.numbers()

    def _pack(self) -> Any:
        part = self._convolution("only")
        return _packed(part.weight.flatten(1), 1), _packed_bias(part.bias, part.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, C, H, W]"""
        if self._usable(x) and is_cpu_runtime(x.device):
            y: Tensor = torch.ops.ocl.packed_pointwise(x, *self._packed, self._results, self._activation)
            return y
        return self._convolution("only")(x)


class FirstConvolution(_Packing):
    """The convolution before the first block, whose result has neighbouring channels where the block wants that."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__({"only": convolution})

    def _pack(self) -> Any:
        return True

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, C, H, W]"""
        if self._usable(x) and is_cpu_runtime(x.device):
            x = x.contiguous(memory_format=torch.channels_last)
        return self._convolution("only")(x)


_RUNTIMES: dict[torch.device, bool] = {}


def is_cpu_runtime(device: torch.device) -> bool:
    """Whether the device runs the kernels for CPUs."""
    known = _RUNTIMES.get(device)
    if known is None:
        from . import ocl  # which may not be there before a device is used

        known = _RUNTIMES[device] = ocl.get_device_properties(device).style == "cpu"
    return known
