"""torch.linalg.matrix_exp against the CPU's in float64."""

import pytest
import torch


def relative(value, truth):
    return ((value - truth).norm() / truth.norm()).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 4, 3, 3), (6, 33, 33)], ids=str)
def test_agrees_with_float64(shape, dtype, device, no_fallback):
    """Matrices of very different norms in one batch: each is scaled by its own power of two."""
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype) / shape[-1] ** 0.5
    if len(shape) > 2:
        x *= torch.logspace(-3, 1, shape[0], dtype=dtype).view(-1, *[1] * (len(shape) - 1))
    truth = torch.linalg.matrix_exp(x.to(torch.complex128 if dtype.is_complex else torch.float64))
    result = torch.linalg.matrix_exp(x.to(device))
    assert result.device.type == "ocl" and result.dtype == dtype
    # rounding errors double with every squaring, of which norms of at most 60 need 7
    for value, exact in zip(result.cpu().reshape(-1, *shape[-2:]), truth.reshape(-1, *shape[-2:]), strict=True):
        assert relative(value, exact) < 128 * torch.finfo(dtype).eps


def test_gradient(device, no_fallback):
    torch.manual_seed(1)
    x = torch.randn(3, 4, 4, dtype=torch.float64)
    gradients = []
    for where in ("cpu", device):
        leaf = x.to(where, copy=True).requires_grad_()
        torch.linalg.matrix_exp(leaf).square().sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-10, atol=1e-10)


def test_a_matrix_that_is_not_finite_leaves_the_others(device):
    x = torch.eye(3).repeat(4, 1, 1)
    x[1, 0, 2], x[2, 1, 1] = torch.nan, torch.inf
    result = torch.linalg.matrix_exp(x.to(device)).cpu()
    assert result[1].isnan().all() and result[2].isnan().all()
    torch.testing.assert_close(
        result[[0, 3]], torch.eye(3).mul(torch.e).where(torch.eye(3) > 0, torch.tensor(0.0)).repeat(2, 1, 1)
    )


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(2, 3), torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64)],
    ids=lambda t: f"{tuple(t.shape)} {t.dtype}",
)
def test_errors_are_those_of_the_cpu(wrong, device):
    with pytest.raises(RuntimeError) as expected:
        torch.linalg.matrix_exp(wrong)
    with pytest.raises(RuntimeError) as actual:
        torch.linalg.matrix_exp(wrong.to(device))
    assert str(actual.value) == str(expected.value)


def test_empty(device):
    assert torch.linalg.matrix_exp(torch.zeros(0, 3, 3, device=device)).shape == (0, 3, 3)
    assert torch.linalg.matrix_exp(torch.zeros(2, 0, 0, device=device)).shape == (2, 0, 0)
