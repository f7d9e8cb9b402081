"""torchvision's C++ operators for the CPU in plain PyTorch: for wheels whose library was built for another PyTorch, and
as the tests' reference.

Derivatives come from autograd, so the backward operators need no formulas of their own.
"""

import functools

import torch


def nms(boxes, scores, threshold):
    """Indices of the boxes that no better kept box covers by more than `threshold`, best first."""
    order = scores.argsort(descending=True, stable=True)
    corners, areas = boxes[order], (boxes[order, 2] - boxes[order, 0]) * (boxes[order, 3] - boxes[order, 1])
    alive = torch.ones(len(order), dtype=torch.bool)
    for i in range(len(order)):
        if alive[i]:
            low, high = (
                torch.maximum(corners[i, :2], corners[i + 1 :, :2]),
                torch.minimum(corners[i, 2:], corners[i + 1 :, 2:]),
            )
            common = (high - low).clamp(min=0).prod(1)
            alive[i + 1 :] &= ~(common / (areas[i] + areas[i + 1 :] - common) > threshold)
    return order[alive]


def roi_align(image, rois, scale, height, width, sampling_ratio, aligned):
    """Average of bilinear samples in each of height x width bins of each region (batch index, x1, y1, x2, y2)."""
    shift = 0.5 if aligned else 0.0
    outputs = []
    for roi in rois:
        low, high = roi[1:3] * scale - shift, roi[3:5] * scale - shift
        size = high - low if aligned else (high - low).clamp(min=1.0)
        samples = []
        for axis, (bins, edge) in enumerate(((width, image.shape[3]), (height, image.shape[2]))):
            count = sampling_ratio if sampling_ratio > 0 else int(torch.ceil(size[axis] / bins))
            step = size[axis] / bins
            at = torch.arange(bins, dtype=rois.dtype)[:, None] * step + (
                torch.arange(count, dtype=rois.dtype)[None] + 0.5
            ) * step / max(count, 1)
            samples.append(linear_weights(low[axis] + at, edge))  # (bins, count, edge)
        columns, lines = (weights.mean(1) if weights.shape[1] else weights.sum(1) for weights in samples)
        outputs.append(torch.einsum("yh,chw,xw->cyx", lines, image[int(roi[0])], columns))
    return torch.stack(outputs) if outputs else image.new_empty(0, image.shape[1], height, width)


def linear_weights(at, edge):
    """Weight of every pixel of a line for a sample: clamped to the line, nothing beyond one pixel outside."""
    inside = (at >= -1) & (at <= edge)
    clamped = at.clamp(0, edge - 1)
    return (1 - (clamped[..., None] - torch.arange(edge, dtype=at.dtype)).abs()).clamp(min=0) * inside[..., None]


def deform_conv2d(
    image,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    """Convolution whose taps are moved by `offset` (y, x per tap), sampled bilinearly with zeros outside, and scaled by
    `mask`."""
    count, channels, height, width = image.shape
    kernel_h, kernel_w = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    taps = kernel_h * kernel_w
    offset = offset.view(count, offset_groups, kernel_h, kernel_w, 2, out_h, out_w)
    y = (
        offset[..., 0, :, :]
        + (torch.arange(out_h) * stride_h - pad_h)[:, None]
        + (torch.arange(kernel_h) * dilation_h)[:, None, None, None]
    )
    x = (
        offset[..., 1, :, :]
        + (torch.arange(out_w) * stride_w - pad_w)
        + (torch.arange(kernel_w) * dilation_w)[:, None, None]
    )
    top, left = y.floor(), x.floor()
    planes = image.view(count, offset_groups, channels // offset_groups, height * width)
    columns = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = top + dy, left + dx
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            share = (y - top if dy else 1 - (y - top)) * (x - left if dx else 1 - (x - left)) * inside
            pixel = (
                (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long().view(count, offset_groups, 1, -1)
            )
            value = planes.gather(3, pixel.expand(-1, -1, planes.shape[2], -1))
            columns = columns + value * share.view(count, offset_groups, 1, -1)
    if use_mask:
        columns = columns * mask.view(count, offset_groups, 1, -1)
    columns = columns.view(count, groups, channels // groups * taps, out_h * out_w)
    output = weight.view(groups, weight.shape[0] // groups, -1) @ columns
    return output.view(count, weight.shape[0], out_h, out_w) + bias[:, None, None]


def roi_align_backward(
    grad, rois, scale, pooled_height, pooled_width, count, channels, height, width, sampling_ratio, aligned
):
    image = grad.new_zeros(count, channels, height, width).requires_grad_()
    with with_autograd(), torch.enable_grad():
        output = roi_align(image, rois, scale, pooled_height, pooled_width, sampling_ratio, aligned)
        return torch.autograd.grad(output, image, grad)[0] if len(rois) else image.detach()


def deform_conv2d_backward(grad, *arguments):
    tensors = [tensor.detach().requires_grad_() for tensor in arguments[:5]]
    with with_autograd(), torch.enable_grad():
        output = deform_conv2d(*tensors, *arguments[5:])
        found = torch.autograd.grad(output, tensors, grad, allow_unused=True)
    return tuple(torch.zeros_like(tensor) if part is None else part for tensor, part in zip(tensors, found))


def with_autograd():
    """Autograd inside a kernel, where the dispatcher has switched it off."""
    excluded = torch._C._dispatch_tls_local_exclude_set() - torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


@functools.cache
def add_cpu_kernels():
    """Gives torchvision's operators the CPU kernels of this file where its library does not load; its own Python has
    registered their derivatives. Returns the library, which has to live as long as they do."""
    if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        return None
    library = torch.library.Library("torchvision", "IMPL")
    for name, function in {"nms": nms, "roi_align": roi_align, "_roi_align_backward": roi_align_backward,
                           "deform_conv2d": deform_conv2d,
                           "_deform_conv2d_backward": deform_conv2d_backward}.items():  # fmt: skip
        library.impl(name, function, "CPU")
    return library
