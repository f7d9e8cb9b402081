"""grid_sample: every mode, values and gradients."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

MODES = list(itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True]))


@pytest.mark.parametrize(("mode", "padding", "align"), MODES)
def test_two_dimensions(mode, padding, align, device):
    x, grid = torch.randn(2, 6, 7, 11), torch.rand(2, 5, 6, 2) * 3 - 1.5  # channels: four together, then single ones
    check(lambda x, g: F.grid_sample(x, g, mode, padding, align), x, grid)


@pytest.mark.parametrize(("mode", "padding", "align"), [m for m in MODES if m[0] != "bicubic"])
def test_three_dimensions(mode, padding, align, device):
    x, grid = torch.randn(2, 3, 4, 7, 5), torch.rand(2, 3, 5, 6, 3) * 3 - 1.5
    check(lambda x, g: F.grid_sample(x, g, mode, padding, align), x, grid)


def test_affine_grid_pipeline(device):
    theta = torch.tensor([[[0.8, 0.1, 0.05], [-0.2, 1.1, 0.0]]])
    check(
        lambda t, x: F.grid_sample(x, F.affine_grid(t, (1, 3, 9, 9), align_corners=False), align_corners=False),
        theta,
        torch.randn(1, 3, 8, 10),
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_reflection_in_float64(mode, device, no_fallback):
    """Coordinates far outside, at the edges and not finite; a few seconds at most."""
    image, grid = torch.randn(2, 3, 5, 7, dtype=torch.float64), torch.randn(2, 11, 13, 2, dtype=torch.float64) * 5
    grid[0, 0, :6] = torch.tensor(
        [[1.0, -1.0], [0.0, 0.0], [40.0, -1e6], [float("inf"), 0.1], [float("nan"), 0.1], [-3.0, 3.0]],
        dtype=torch.float64,
    )
    for align_corners in (False, True):
        expected = torch.nn.functional.grid_sample(image, grid, mode, "reflection", align_corners)
        actual = torch.nn.functional.grid_sample(
            image.to(device), grid.to(device), mode, "reflection", align_corners
        ).cpu()
        usable = grid.isfinite().all(-1)[:, None].expand_as(expected)
        torch.testing.assert_close(actual[usable], expected[usable], rtol=1e-9, atol=1e-9)
