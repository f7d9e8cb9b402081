"""torchvision's operators: nms, roi_align, deform_conv2d, against the formulas of
benchmarks/models/torchvision_operators.py or torchvision itself."""

import pytest
import torch

from layer_checks import check


def boxes(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * 40
    return torch.cat([corner, corner + 4 + torch.rand(count, 2, generator=generator) * 20], dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("count", [0, 1, 64, 300])
def test_nms(count, dtype, torchvision, device, no_fallback):
    corners, scores = boxes(count).to(dtype), torch.rand(count).to(dtype)
    wide = torch.promote_types(dtype, torch.float32)  # what the device compares half precision boxes in
    for threshold in (0.2, 0.5, 0.9):
        expected = torchvision.ops.nms(corners.to(wide), scores.to(wide), threshold)
        actual = torchvision.ops.nms(corners.to(device), scores.to(device), threshold)
        assert actual.device.type == device and actual.dtype == torch.int64
        assert torch.equal(actual.cpu(), expected)


def test_nms_of_equal_scores_and_strided_boxes(torchvision, device, no_fallback):
    corners, scores = boxes(50), torch.arange(50).remainder(3).float()
    expected = torchvision.ops.nms(corners, scores, 0.3)
    moved = corners.to(device).t().contiguous().t()
    assert torch.equal(torchvision.ops.nms(moved, scores.to(device), 0.3).cpu(), expected)
    classes = torch.arange(50).remainder(4)
    expected = torchvision.ops.batched_nms(corners, scores, classes, 0.3)
    assert torch.equal(
        torchvision.ops.batched_nms(corners.to(device), scores.to(device), classes.to(device), 0.3).cpu(), expected
    )


def test_nms_refuses_what_torchvision_refuses(torchvision, device):
    for corners, scores in ((torch.rand(4), torch.rand(4)), (torch.rand(4, 5), torch.rand(4)),
                            (torch.rand(4, 4), torch.rand(3)), (torch.rand(4, 4), torch.rand(4).double())):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"boxes|dets|type"):
            torchvision.ops.nms(corners.to(device), scores.to(device), 0.5)


ROIS = torch.tensor(
    [[0, 1.5, 2, 19, 17], [1, -9, -6, 12, 9], [1, 3, 4, 3.4, 4.2], [0, 22, 20, 60, 50], [1, 0, 0, 26, 22]]
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("ratio", [-1, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(ratio, aligned, dtype, torchvision, device):
    def function(image):
        rounded = ROIS.to(dtype)  # once, for both sides
        return torchvision.ops.roi_align(image, rounded.to(image), (3, 5), 0.5, ratio, aligned)

    check(function, torch.randn(2, 18, 11, 13), dtype=dtype)


def test_roi_align_of_strided_images_and_no_regions(torchvision, device, no_fallback):
    image = torch.randn(2, 11, 13, 6).permute(0, 3, 1, 2)
    expected = torchvision.ops.roi_align(image, ROIS, 4)
    torch.testing.assert_close(torchvision.ops.roi_align(image.to(device), ROIS.to(device), 4).cpu(), expected)
    empty = image.to(device).requires_grad_()
    output = torchvision.ops.roi_align(empty, torch.zeros(0, 5, device=device), 4)
    output.sum().backward()
    assert output.shape == (0, 6, 4, 4) and not empty.grad.any()


def test_roi_align_under_autocast(torchvision, device, no_fallback):
    image = torch.randn(2, 4, 11, 13).half().to(device)
    with torch.autocast(device, torch.float16):
        assert torchvision.ops.roi_align(image, ROIS.to(device), 4).dtype == torch.float16
        assert len(torchvision.ops.nms(boxes(20).half().to(device), torch.rand(20, device=device), 0.5)) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv2d(masked, groups, offset_groups, dtype, torchvision, device):
    def function(image, offset, weight, bias, mask):
        return torchvision.ops.deform_conv2d(
            image, offset, weight, bias, (2, 1), (1, 2), (1, 3), mask if masked else None
        )

    taps = 3 * 2
    tensors = (torch.randn(2, 6, 9, 8), torch.rand(2, 2 * offset_groups * taps, 5, 9) * 5 - 2.5,
               torch.randn(4, 6 // groups, 3, 2), torch.randn(4),
               torch.rand(2, offset_groups * taps, 5, 9))  # fmt: skip
    check(function, *tensors, dtype=dtype)


def test_deform_conv2d_without_offsets_is_a_convolution(torchvision, device, no_fallback):
    image, weight = torch.randn(3, 4, 9, 8), torch.randn(6, 4, 3, 3)
    expected = torch.nn.functional.conv2d(image, weight, padding=1)
    actual = torchvision.ops.deform_conv2d(
        image.to(device), torch.zeros(3, 18, 9, 8, device=device), weight.to(device), padding=1
    )
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_deform_conv2d_refuses_what_torchvision_refuses(torchvision, device):
    image, weight = torch.randn(3, 4, 9, 8, device=device), torch.randn(6, 4, 3, 3, device=device)
    with pytest.raises(RuntimeError, match="offset output dims"):
        torchvision.ops.deform_conv2d(image, torch.zeros(3, 18, 9, 8, device=device), weight)
    with pytest.raises(RuntimeError, match=r"offset.shape"):
        torchvision.ops.deform_conv2d(image, torch.zeros(3, 20, 9, 8, device=device), weight, padding=1)
