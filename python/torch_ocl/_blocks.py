"""Parts of transformers that `torch_ocl.optimize` replaces, found by what they compute and not by their names."""

import copy
import functools
import inspect
import math
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .quantization import QuantizedLinear

# Layers that usually read one input. It only pays where they do; results do not depend on it.
_SIBLINGS = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("q", "k", "v"),
    ("wq", "wk", "wv"),
)
# Rows of the elementwise table for activation(a) * b.
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu_mul": F.silu,
    "gelu_mul": F.gelu,
    "gelu_tanh_mul": lambda x: F.gelu(x, approximate="tanh"),
}


_rms_norm = torch.ops.aten._fused_rms_norm.default


@functools.cache  # a look-up by name takes as long as a launch; without an OpenCL loader there are none
def _operator(name: str) -> Any:
    return getattr(torch.ops.ocl, name).default


def _fuses(x: torch.Tensor) -> bool:
    """Whether an operator without a gradient may take x."""
    return x.device.type == "ocl" and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in one kernel."""

    def __init__(self, weight: nn.Parameter, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = weight, eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., n]: the same sizes."""
        if x.dtype == self.weight.dtype and _fuses(x):
            normed: torch.Tensor = _rms_norm(x, self.weight.shape, self.weight, self.eps)[0]
            return normed
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)) with gate and up as one product."""

    def __init__(self, gate_up: nn.Linear, down: nn.Module, activation: str, gate_first: bool) -> None:
        super().__init__()
        self.gate_up, self.down, self.activation, self.gate_first = gate_up, down, activation, gate_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., n]: the same sizes."""
        first, second = self.gate_up(x).chunk(2, -1)
        gate, up = (first, second) if self.gate_first else (second, first)
        if _fuses(x):
            product = _operator("elementwise")(self.activation, [gate, up])
        else:
            product = _ACTIVATIONS[self.activation](gate) * up
        result: torch.Tensor = self.down(product)
        return result


class _Merged(nn.Module):
    """Linear layers of one input as one product, where that input is a single row, or where the product's weight is of
    a kind that cannot be cut (quantised)."""

    def __init__(self, parts: list[nn.Linear]) -> None:
        super().__init__()
        self.sizes = [part.out_features for part in parts]
        self.linear = _joined(parts)
        self._kept: tuple[int, torch.Tensor, list[torch.Tensor | None]] | None = None
        self._in_vain = 0  # times that nobody asked for the other results

    def take(self, index: int, x: torch.Tensor) -> torch.Tensor:
        """The result of one layer."""
        rows = x.numel() != x.shape[-1]
        if rows and type(self.linear) is nn.Linear:
            return self._alone(index, x)
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or self._in_vain > 2:
            return self._alone(index, x)
        kept = self._kept
        if index == 0:
            if kept is not None and all(part is not None for part in kept[2][1:]):
                self._in_vain += 1  # attention to another sequence, whose keys and values are kept
            kept = (threading.get_ident(), x, list(self.linear(x).split(self.sizes, -1)))
            self._kept = kept
        elif kept is None or kept[0] != threading.get_ident() or kept[1] is not x:
            return self._alone(index, x)
        result = kept[2][index]
        kept[2][index] = None
        if all(part is None for part in kept[2]):
            self._kept = None
        if result is None:
            return self._alone(index, x)
        return result.contiguous() if rows else result

    def _alone(self, index: int, x: torch.Tensor) -> torch.Tensor:
        begin = sum(self.sizes[:index])
        if isinstance(self.linear, QuantizedLinear):
            return self.linear.part(x, begin, self.sizes[index])
        if type(self.linear) is not nn.Linear:
            result: torch.Tensor = self.linear(x)
            return result.narrow(-1, begin, self.sizes[index]).contiguous()
        bias = self.linear.bias
        return F.linear(
            x,
            self.linear.weight.narrow(0, begin, self.sizes[index]),
            None if bias is None else bias.narrow(0, begin, self.sizes[index]),
        )

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}


class _Part(nn.Module):
    """One of the layers of `_Merged`; the first holds it."""

    def __init__(self, merged: _Merged, index: int, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.index = linear.in_features, linear.out_features, index
        if index == 0:
            self.merged = merged
        else:
            self.__dict__["merged"] = merged  # not a module of its own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features]: [..., out_features]."""
        return self.merged.take(self.index, x)


FUSED = (RMSNorm, GatedMLP, _Part)


def _joined(parts: list[nn.Linear]) -> nn.Linear:
    """One layer with the rows of all, in their order."""
    weights: list[torch.Tensor] = [part.weight for part in parts]
    rows = sum(part.out_features for part in parts)
    joined = nn.Linear(parts[0].in_features, rows, bias=False, device="meta")
    joined.weight = nn.Parameter(torch.cat(weights), requires_grad=False)
    if any(part.bias is not None for part in parts):
        biases: list[torch.Tensor] = [
            part.weight.new_zeros(part.out_features) if part.bias is None else part.bias for part in parts
        ]
        joined.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
    return joined


def _can_join(parts: list[nn.Module]) -> bool:
    first = parts[0]
    return all(
        type(part) is nn.Linear
        and type(first) is nn.Linear
        and part.in_features == first.in_features
        and part.weight.dtype == first.weight.dtype
        and part.weight.device == first.weight.device
        for part in parts
    )


def _plain_call(module: nn.Module, x: torch.Tensor) -> torch.Tensor | None:
    """What the module computes of one tensor; None where it cannot be called so."""
    try:
        with torch.no_grad():
            result = module(x)
    except Exception:  # any code may be in it
        return None
    return result if isinstance(result, torch.Tensor) else None


def _same(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    return a is not None and a.shape == b.shape and bool(torch.allclose(a.float(), b, rtol=1e-4, atol=1e-5))


def _as_rms_norm(module: nn.Module) -> nn.Module | None:
    parameters = dict(module.named_parameters())
    if len(parameters) != 1 or any(module.children()) or any(module.buffers()):
        return None
    ((name, weight),) = parameters.items()
    if weight.dim() != 1 or weight.is_meta or "." in name or not weight.is_floating_point():
        return None
    numbers = [v for v in module.__dict__.values() if isinstance(v, float) and 0 < v < 0.1 and math.isfinite(v)]
    if not numbers:
        return None
    sample = copy.copy(module)
    scale = torch.linspace(0.5, 1.5, weight.shape[0])
    sample._parameters = {name: nn.Parameter(scale)}
    x = torch.linspace(-2e-3, 3e-3, 2 * weight.shape[0]).view(2, -1)
    actual = _plain_call(sample, x)
    for eps in numbers:
        if _same(actual, F.rms_norm(x, scale.shape, scale, eps)):
            return RMSNorm(nn.Parameter(weight.detach(), requires_grad=False), eps)
    return None


def _tiny(module: nn.Module, sizes: dict[int, int]) -> nn.Module:
    """The module with small linear layers of random weights in place of its own."""
    sample = copy.copy(module)
    sample._modules = dict(module._modules)
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            sample._modules[name] = nn.Linear(
                sizes[child.in_features], sizes[child.out_features], child.bias is not None
            )
    return sample


def _as_gated_mlp(module: nn.Module) -> nn.Module | None:
    linears = {name: child for name, child in module.named_children() if type(child) is nn.Linear}
    others = [child for child in module.children() if type(child) is not nn.Linear]
    if len(linears) not in (2, 3) or any(True for child in others for _ in child.parameters()):
        return None
    if any(True for _ in module.parameters(recurse=False)) or any(layer.weight.is_meta for layer in linears.values()):
        return None
    downs = [name for name, layer in linears.items() if layer.out_features < layer.in_features]
    if len(downs) != 1:
        return None
    rest = [name for name in linears if name != downs[0]]
    down = linears[downs[0]]
    width = down.out_features
    if any(linears[name].in_features != width for name in rest):
        return None
    # Sizes of the sample: other layers' widths follow the inner width.
    inner = down.in_features
    wide = 2 * inner if len(rest) == 1 else inner
    if any(linears[name].out_features != wide for name in rest) or not _can_join([linears[name] for name in rest]):
        return None
    with torch.random.fork_rng(devices=[], device_type="cpu"):
        torch.manual_seed(0)
        sample = _tiny(module, {width: 8, inner: 16, 2 * inner: 32})
        x = torch.randn(3, 8)
    actual = _plain_call(sample, x)
    if actual is None:
        return None
    return _matching_mlp(sample, x, actual, linears, rest, downs[0])


def _matching_mlp(
    sample: nn.Module, x: torch.Tensor, actual: torch.Tensor, linears: dict[str, nn.Linear], rest: list[str], down: str
) -> nn.Module | None:
    with torch.no_grad():
        small = torch.cat([sample._modules[name](x) for name in rest], -1).chunk(2, -1)  # type: ignore[misc]
        for activation, function in _ACTIVATIONS.items():
            for gate_first in (True, False):
                gate, up = small if gate_first else small[::-1]
                if _same(actual, sample._modules[down](function(gate) * up)):  # type: ignore[misc]
                    joined = _joined([linears[name] for name in rest])
                    return GatedMLP(joined, linears[down], activation, gate_first)
    return None


def _merge_siblings(module: nn.Module) -> bool:
    for names in _SIBLINGS:
        parts = [module._modules.get(name) for name in names]
        if any(type(part) is not nn.Linear for part in parts):
            continue
        layers = [part for part in parts if isinstance(part, nn.Linear)]
        if _can_join(list(layers)) and not any(layer.weight.is_meta for layer in layers):
            merged = _Merged(layers)
            for index, (name, layer) in enumerate(zip(names, layers, strict=True)):
                setattr(module, name, _Part(merged, index, layer))
            return True
    return False


# ---- rotary position embedding: a function, which forward finds among the globals of its file


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos.unsqueeze(1) + torch.cat((-second, first), -1) * sin.unsqueeze(1)


def _is_rotary(function: object) -> bool:
    """Whether function(q, k, cos, sin) turns the halves of heads against each other."""
    if not isinstance(function, types.FunctionType):
        return False
    if list(inspect.signature(function).parameters)[:4] != ["q", "k", "cos", "sin"]:
        return False
    q, k = torch.linspace(-1, 1, 48).view(1, 2, 3, 8), torch.linspace(2, -1, 24).view(1, 1, 3, 8)
    cos, sin = torch.linspace(-1, 0.5, 24).view(1, 3, 8), torch.linspace(0.3, 1, 24).view(1, 3, 8)
    try:
        result = function(q, k, cos, sin)
    except Exception:  # any code may be in it
        return False
    return (
        isinstance(result, tuple)
        and len(result) == 2
        and _same(result[0], _turned(q, cos, sin))
        and _same(result[1], _turned(k, cos, sin))
    )


def _fused_rotary(original: Callable[..., Any]) -> Callable[..., Any]:
    def rotary(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *rest: Any, **named: Any) -> Any:
        if (
            rest
            or named
            or not _fuses(q)
            or not q.dim() == k.dim() == cos.dim() + 1 == sin.dim() + 1 == 4
            or not q.dtype == k.dtype == cos.dtype == sin.dtype
            or q.dtype not in (torch.float32, torch.float16, torch.bfloat16)
            or not q.shape[-1] == k.shape[-1] == cos.shape[-1] == sin.shape[-1]
        ):
            return original(q, k, cos, sin, *rest, **named)
        return _operator("rotary")(q, k, cos, sin)

    return rotary


def _rebound(function: types.FunctionType, name: str, value: object) -> types.FunctionType:
    """The function, with another global of that name; what wraps it wraps the new one."""
    inner = function.__dict__.get("__wrapped__")
    cells = function.__closure__
    scope = function.__globals__
    if isinstance(inner, types.FunctionType):
        new = _rebound(inner, name, value)
        cells = tuple(types.CellType(new) if cell.cell_contents is inner else cell for cell in cells or ())
    else:
        scope = {**scope, name: value}
    copied = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


def _fuse_rotary(module: nn.Module) -> bool:
    forward = type(module).forward
    if "forward" in module.__dict__ or not isinstance(forward, types.FunctionType):
        return False
    innermost = inspect.unwrap(forward)
    for name in innermost.__code__.co_names:
        function = innermost.__globals__.get(name)
        if "rot" in name and isinstance(function, types.FunctionType) and _is_rotary(function):
            module.__dict__["forward"] = types.MethodType(_rebound(forward, name, _fused_rotary(function)), module)
            return True
    return False


def _is_hooked(module: nn.Module) -> bool:
    return any(
        part._forward_hooks or part._forward_pre_hooks or hasattr(part, "parametrizations") for part in module.modules()
    )


def _children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    yield from list(module.named_children())


def fuse(module: nn.Module) -> int:
    """Replaces parts of the module in place; how many. Weights that parts share with others are kept as they are."""
    uses: dict[int, int] = {}
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    return _fuse(module, uses)


def _fuse(module: nn.Module, uses: dict[int, int]) -> int:
    count = 0
    for name, child in _children(module):
        own = [uses.get(id(parameter), 1) for parameter in child.parameters()]
        if not _is_hooked(child) and max(own, default=1) == 1:
            replacement = _as_rms_norm(child) or _as_gated_mlp(child)
            if replacement is not None:
                setattr(module, name, replacement.eval())
                count += 1
                continue
            count += _merge_siblings(child) + _fuse_rotary(child)
        count += _fuse(child, uses)
    return count
