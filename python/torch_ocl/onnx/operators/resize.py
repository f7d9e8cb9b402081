"""Resize, Upsample, GridSample."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row


def _positions(mode: str, size: Any, scale: Any, outputs: Any, roi: tuple[float, float] | None) -> Tensor:
    """Where in an axis of `size` elements each output lies, float64 on the host."""
    y = torch.arange(outputs, dtype=torch.float64)
    exact = scale * size  # the length of the output before it was rounded
    if mode == "align_corners":
        return y * 0 if exact == 1 else y * ((size - 1) / (exact - 1))
    if mode == "asymmetric":
        return y / scale
    if mode == "pytorch_half_pixel" and exact == 1:
        return y * 0 - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (y + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - outputs / exact) + (y + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        if roi is None:
            raise ValueError("tf_crop_and_resize needs the input roi")
        start, end = roi
        if exact == 1:
            return y * 0 + (end + start) * (size - 1) / 2
        return y * ((end - start) * (size - 1) / (exact - 1)) + start * (size - 1)
    raise ValueError(f"coordinate_transformation_mode is '{mode}'")


def _nearest(x: Tensor, mode: str) -> Tensor:
    if mode == "round_prefer_floor":
        return torch.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return torch.floor(x + 0.5)
    if mode in ("floor", "ceil"):
        return torch.floor(x) if mode == "floor" else torch.ceil(x)
    raise ValueError(f"nearest_mode is '{mode}'")


def _cubic(distance: Tensor, a: float) -> Tensor:
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _taps(
    x: Tensor, size: Any, scale: Any, cubic: bool, a: float, antialias: int, exclude: int
) -> tuple[Tensor, Tensor]:
    """Indices and weights [outputs, taps] of linear or cubic interpolation."""
    stretch = min(float(scale), 1.0) if antialias else 1.0
    reach = (2 if cubic else 1) / stretch
    first = torch.floor(x - reach) + 1
    count = 2 * math.ceil(reach) + (1 if stretch < 1 else 0)
    places = first.unsqueeze(1) + torch.arange(count, dtype=torch.float64)
    distance = (places - x.unsqueeze(1)) * stretch
    weights = _cubic(distance, a) if cubic else (1 - distance.abs()).clamp(min=0)
    if exclude:
        weights = torch.where((places < 0) | (places > size - 1), 0.0, weights)
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdim=True)
    return places.clamp(0, size - 1).to(torch.int64), weights


def _axis(x: Tensor, axis: int, places: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of the elements at places [outputs, taps] of one axis."""
    outputs, taps = places.shape
    gathered = x.index_select(axis, places.reshape(-1).to(x.device))
    shape = list(x.shape)
    shape[axis : axis + 1] = [outputs, taps]
    shaped = [1] * len(shape)
    shaped[axis], shaped[axis + 1] = outputs, taps
    return (gathered.reshape(shape) * weights.to(x.dtype).to(x.device).reshape(shaped)).sum(axis + 1)


def _fast(
    x: Tensor, mode: str, sizes: list[Any], scales: list[Any], axes: list[int], options: dict[str, Any]
) -> Tensor | None:
    """F.interpolate where it computes the same."""
    whole = all(
        s == size / x.shape[a]
        for s, size, a in zip(scales, sizes, axes)
        if isinstance(size, int) and isinstance(x.shape[a], int)
    )
    if x.dim() != 4 or axes != [2, 3] or not whole or not x.is_floating_point() or options["exclude"]:
        return None
    coordinates, nearest = options["coordinates"], options["nearest"]
    if mode == "nearest":
        exact = coordinates == "asymmetric" and nearest == "floor"
        doubled = all(isinstance(s, (int, float)) and s >= 1 and s == int(s) for s in scales)
        usual = coordinates == "half_pixel" and nearest in ("round_prefer_floor", "round_prefer_ceil")
        if exact or (doubled and usual):
            return F.interpolate(x, [*sizes], mode="nearest")
        return None
    if options["antialias"]:
        return None
    half = coordinates == "half_pixel" or (
        coordinates == "pytorch_half_pixel" and all(not isinstance(size, int) or size > 1 for size in sizes)
    )
    corners = coordinates == "align_corners"
    if mode == "linear" and (half or corners):
        return F.interpolate(x, [*sizes], mode="bilinear", align_corners=corners)
    if mode == "cubic" and (half or corners) and options["a"] == -0.75:
        return F.interpolate(x, [*sizes], mode="bicubic", align_corners=corners)
    return None


def _sizes(x: Tensor, scales: Any, sizes: Any, axes: list[int], policy: str) -> tuple[list[Any], list[Any]]:
    """The sizes of the result and the scales that coordinates use."""
    if sizes:
        if len(sizes) != len(axes):
            raise ValueError(f"{len(sizes)} sizes for {len(axes)} axes")
        ratios = [size / x.shape[axis] for size, axis in zip(sizes, axes)]
        if policy == "stretch":
            return list(sizes), ratios
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [int(ratio * x.shape[axis] + 0.5) for axis in axes], [ratio] * len(axes)
    if not scales:
        raise ValueError("it needs scales or sizes")
    if len(scales) != len(axes):
        raise ValueError(f"{len(scales)} scales for {len(axes)} axes")
    return [_scaled(x.shape[axis], scale) for axis, scale in zip(axes, scales)], list(scales)


def _scaled(size: Any, scale: Any) -> Any:
    """floor(size * scale); whole scales keep symbolic sizes exact."""
    if isinstance(scale, float) and scale == int(scale):
        return size * int(scale)
    return torch.sym_int(size * scale) if not isinstance(size, int) else math.floor(size * scale)


@row("Resize", 11, host=(1, 2, 3))
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """x with other sizes, by nearest, linear or cubic interpolation, one axis after the other."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"mode is '{mode}'")
    places = [axis % x.dim() for axis in axes] if axes is not None else list(range(x.dim()))
    targets, factors = _sizes(x, scales, sizes, places, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    work = [
        (axis, target, factor, (roi[i], roi[len(places) + i]) if roi and crops else None)
        for i, (axis, target, factor) in enumerate(zip(places, targets, factors))
        if crops or not (isinstance(factor, (int, float)) and factor == 1)
    ]
    work.sort()
    options = {
        "antialias": antialias,
        "coordinates": coordinate_transformation_mode,
        "exclude": exclude_outside,
        "nearest": nearest_mode,
        "a": cubic_coeff_a,
    }
    quick = _fast(x, mode, [w[1] for w in work], [w[2] for w in work], [w[0] for w in work], options)
    if quick is not None:
        return quick
    dtype = x.dtype
    if mode != "nearest" and dtype not in (torch.float32, torch.float64):
        x = x.to(torch.float32)
    for axis, target, factor, region in work:
        size = x.shape[axis]
        position = _positions(coordinate_transformation_mode, size, factor, target, region)
        if mode == "nearest":
            index = _nearest(position, nearest_mode).clamp(0, size - 1).to(torch.int64)
            result = x.index_select(axis, index.to(x.device))
        else:
            taps = _taps(position, size, factor, mode == "cubic", cubic_coeff_a, antialias, exclude_outside)
            result = _axis(x, axis, *taps)
        if crops:
            outside = ((position < 0) | (position > size - 1)).to(x.device)
            shape = [1] * x.dim()
            shape[axis] = -1
            result = result.masked_fill(outside.reshape(shape), extrapolation_value)
        x = result
    return x if x.dtype == dtype else _saturated(x, dtype)


def _saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        return x.to(dtype)
    limits = torch.iinfo(dtype)
    return x.clamp(limits.min, limits.max).to(dtype)


@row("Resize", 10, host=(1,))
def resize_10(x: Tensor, scales: Any, *, mode: str = "nearest") -> Tensor:
    """Resize of opset 10: asymmetric, floor."""
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@row("Upsample", 9, host=(1,))
def upsample(x: Tensor, scales: Any, *, mode: str = "nearest") -> Tensor:
    """The Resize of before opset 10."""
    return resize_10(x, scales, mode="linear" if mode == "bilinear" else mode)


@row("Upsample", 7)
def upsample_by_attribute(x: Tensor, *, scales: Any, mode: str = "nearest") -> Tensor:
    """Upsample with its scales as an attribute."""
    return upsample(x, scales, mode=mode)


@row("Upsample", 1)
def upsample_1(x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Tensor:
    """Upsample of opset 1."""
    return upsample(x, [1.0, 1.0, height_scale, width_scale], mode=mode)


@row("GridSample", 16)
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """x at the positions of a grid."""
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid.to(x.dtype), name, padding_mode, bool(align_corners))


@row("AffineGrid", 20, host=(1,))
def affine_grid(theta: Tensor, size: Any, *, align_corners: int = 0) -> Tensor:
    """Grids of positions turned and moved by matrices."""
    return F.affine_grid(theta, list(size), bool(align_corners))
