"""Boxes, regions and pictures."""

import io
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row


def _corners(boxes: Tensor, center: int) -> Tensor:
    """Boxes as [y1, x1, y2, x2] with the smaller corner first."""
    if center:
        x, y, width, height = boxes.unbind(-1)
        return torch.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    y1, x1, y2, x2 = boxes.unbind(-1)
    return torch.stack([torch.minimum(y1, y2), torch.minimum(x1, x2), torch.maximum(y1, y2), torch.maximum(x1, x2)], -1)


def _suppress(boxes: Any, areas: Any, order: Any, most: int, threshold: float) -> list[int]:
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best = order[0]
        kept.append(int(best))
        rest = order[1:]
        low = numpy.maximum(boxes[best, :2], boxes[rest, :2])
        high = numpy.minimum(boxes[best, 2:], boxes[rest, 2:])
        inner = numpy.clip(high - low, 0, None).prod(1)
        union = areas[best] + areas[rest] - inner
        ratio = numpy.divide(inner, union, out=numpy.zeros_like(inner), where=union > 0)
        order = rest[ratio <= threshold]
    return kept


@row("NonMaxSuppression", 10, host=(2, 3, 4))
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Any = None, iou: Any = None, lowest: Any = None, *, center_point_box: int = 0
) -> Tensor:
    """[batch, class, box] of boxes that overlap no better one. The choice is made on the host: waits for the device."""
    most, iou, lowest = (value[0] if isinstance(value, (list, tuple)) else value for value in (most, iou, lowest))
    if not most:
        return torch.empty((0, 3), dtype=torch.int64, device=boxes.device)
    corners = _corners(boxes.float(), center_point_box).cpu().numpy()
    table = scores.float().cpu().numpy()
    chosen = []
    for batch in range(table.shape[0]):
        places = corners[batch]
        areas = (places[:, 2] - places[:, 0]) * (places[:, 3] - places[:, 1])
        for kind in range(table.shape[1]):
            row_scores = table[batch, kind]
            order = numpy.argsort(-row_scores, kind="stable")
            if lowest is not None:
                order = order[row_scores[order] > lowest]
            chosen += [[batch, kind, box] for box in _suppress(places, areas, order, most, iou or 0.0)]
    return torch.tensor(chosen, dtype=torch.int64).reshape(-1, 3).to(boxes.device)


def _bilinear(x: Tensor, batches: Tensor, y: Tensor, z: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Four neighbours [regions, samples, channels] of positions and their weights; outside by more than 1 is 0."""
    height, width = x.shape[2:]
    inside = (y >= -1) & (y <= height) & (z >= -1) & (z <= width)
    y, z = y.clamp(min=0), z.clamp(min=0)
    top, left = y.floor().clamp(max=height - 1), z.floor().clamp(max=width - 1)
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    y = torch.where(top >= height - 1, top, y)
    z = torch.where(left >= width - 1, left, z)
    dy, dx = y - top, z - left
    planes = x.permute(0, 2, 3, 1)
    result = []
    for row_, column, weight in (
        (top, left, (1 - dy) * (1 - dx)),
        (top, right, (1 - dy) * dx),
        (bottom, left, dy * (1 - dx)),
        (bottom, right, dy * dx),
    ):
        value = planes[batches.reshape(-1, 1), row_.long(), column.long()]
        result.append((value, torch.where(inside, weight, torch.zeros_like(weight)).unsqueeze(-1)))
    return result


@row("RoiAlign", 16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Means or maxima of bilinear samples in the cells of regions [x1, y1, x2, y2]."""
    offset = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    scaled = rois * spatial_scale - offset
    x1, y1, x2, y2 = scaled.unbind(1)
    width, height = x2 - x1, y2 - y1
    if coordinate_transformation_mode != "half_pixel":
        width, height = width.clamp(min=1), height.clamp(min=1)
    batches = batches.to(torch.int64)
    if sampling_ratio > 0:
        return _cells(x, batches, (y1, x1, height, width), (output_height, output_width), (sampling_ratio,) * 2, mode)
    rows = torch.ceil(height / output_height).clamp(min=1).long().tolist()
    columns = torch.ceil(width / output_width).clamp(min=1).long().tolist()
    results = []
    for i, counts in enumerate(zip(rows, columns)):  # each region has a number of samples of its own
        box = tuple(part[i : i + 1] for part in (y1, x1, height, width))
        results.append(_cells(x, batches[i : i + 1], box, (output_height, output_width), counts, mode))
    return torch.cat(results) if results else x.new_zeros((0, x.shape[1], output_height, output_width))


def _cells(x: Tensor, batches: Tensor, box: Any, cells: tuple[int, int], samples: tuple[int, int], mode: str) -> Tensor:
    y1, x1, height, width = (part.reshape(-1, 1) for part in box)
    steps = [torch.arange(c * s, dtype=x.dtype, device=x.device) for c, s in zip(cells, samples)]
    y = y1 + (steps[0] + 0.5) * (height / (cells[0] * samples[0]))
    z = x1 + (steps[1] + 0.5) * (width / (cells[1] * samples[1]))
    rows, columns = y.shape[1], z.shape[1]
    grid_y = y.unsqueeze(2).expand(-1, rows, columns).reshape(-1, rows * columns)
    grid_x = z.unsqueeze(1).expand(-1, rows, columns).reshape(-1, rows * columns)
    parts = _bilinear(x, batches, grid_y, grid_x)
    shape = (-1, cells[0], samples[0], cells[1], samples[1], x.shape[1])
    if mode == "max":  # the largest of the weighted neighbours, as the specification's reference does
        values = torch.stack([value * weight for value, weight in parts]).amax(0).reshape(shape)
        result = values.amax((2, 4))
    else:
        first = parts[0][0] * parts[0][1]
        for value, weight in parts[1:]:
            first = first + value * weight
        result = first.reshape(shape).mean((2, 4))
    return result.permute(0, 3, 1, 2)


@row("RoiAlign", 10)
def roi_align_10(
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """RoiAlign without half_pixel."""
    return roi_align(
        x,
        rois,
        batches,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@row("ImageDecoder", 20)
def image_decoder(data: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """The pixels [height, width, channels] of an encoded picture, by Pillow on the host."""
    from PIL import Image

    picture = Image.open(io.BytesIO(data.cpu().numpy().tobytes()))
    pixels = numpy.array(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    if pixel_format == "BGR":
        pixels = pixels[:, :, ::-1].copy()
    if pixel_format == "Grayscale":
        pixels = pixels[:, :, None]
    return torch.from_numpy(pixels).to(data.device)


@row("ImageScaler")
def image_scaler(x: Tensor, *, bias: Any, scale: float = 1.0) -> Tensor:
    """x * scale + bias of channels; an experimental operator of opset 1 that old models have."""
    return x * scale + torch.tensor(bias, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)


@row("Crop")
def crop(x: Tensor, *, border: Any, scale: Any = None) -> Tensor:
    """x without its border; an experimental operator of opset 1 that old models have."""
    left, top, right, bottom = border
    if scale is not None:
        return x[:, :, top : top + scale[0], left : left + scale[1]]
    return F.pad(x, [-left, -right, -top, -bottom])
