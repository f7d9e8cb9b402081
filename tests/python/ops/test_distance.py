"""cdist: every norm, both ways of computing the Euclidean one, gradients of both operands."""

import pytest
import torch

from layer_checks import check


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_norms(p, dtype, device):
    check(
        lambda a, b: torch.cdist(a, b, p),
        torch.randn(2, 1, 5, 4),
        torch.randn(3, 6, 4),
        dtype=dtype,
        strides=False,
    )


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"]
)
def test_euclidean(mode, device):
    check(lambda a, b: torch.cdist(a, b, 2.0, mode), torch.randn(30, 4), torch.randn(7, 4), strides=False)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_equal_points_have_no_slope(p, device):
    check(
        lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"),
        torch.eye(3, 4),
        torch.eye(4),
        strides=False,
    )


@pytest.mark.parametrize("rows", [(0, 3), (3, 0), (2, 3)])
def test_nothing(rows, device):
    columns = 0 if rows == (2, 3) else 4
    check(
        lambda a, b: torch.cdist(a, b, 1.0), torch.randn(rows[0], columns), torch.randn(rows[1], columns), strides=False
    )


def test_errors_are_the_cpus(device):
    for a, b, p in (
        (torch.rand(3), torch.rand(3, 3), 2),
        (torch.rand(3, 4), torch.rand(3, 5), 2),
        (torch.rand(3, 4), torch.rand(3, 4), -1),
    ):
        with pytest.raises(RuntimeError) as expected:
            torch.cdist(a, b, p)
        with pytest.raises(RuntimeError) as actual:
            torch.cdist(a.to(device), b.to(device), p)
        assert str(actual.value) == str(expected.value)
