"""Cholesky, LU, triangular systems and what is made of them, against the CPU; sizes around blocks (64) and panels
(32)."""

import pytest
import torch

SIZES = (1, 5, 33, 65, 100)


def matrix(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(n):
    a = matrix(2, n, n)
    return a @ a.mT + n * torch.eye(n)


def compare(actual, expected, dtype):
    assert actual.device.type == "ocl" and actual.dtype == dtype
    scale = expected.abs().max().item()
    relative = 2e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=0, atol=relative * max(scale, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n, dtype, device, no_fallback):
    a = positive(n)
    x = a.to(device, dtype)
    for upper in (False, True):
        factor = torch.linalg.cholesky(x, upper=upper)
        compare(factor, torch.linalg.cholesky(a, upper=upper), dtype)
        compare(torch.cholesky_inverse(factor, upper=upper), torch.linalg.inv(a), dtype)
        b = matrix(2, n, 3, seed=1)
        compare(torch.cholesky_solve(b.to(device, dtype), factor, upper=upper), torch.linalg.solve(a, b), dtype)


def test_not_positive_definite(device):
    a = torch.eye(70, dtype=torch.float32)
    a[66, 66] = -1
    _, info = torch.linalg.cholesky_ex(a.to(device))
    assert info.item() == 67
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 67"):
        torch.linalg.cholesky(a.to(device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", SIZES)
def test_lu(n, dtype, device, no_fallback):
    for rows, columns in ((n, n), (n, n + 7), (n + 7, n)):
        a = matrix(2, rows, columns)
        x = a.to(device, dtype)
        p, lower, upper = torch.linalg.lu(x)
        compare(p @ lower @ upper, a, dtype)
        assert lower.tril().equal(lower) and upper.triu().equal(upper) and lower.abs().max().item() <= 1
    a = matrix(2, n, n) + 2 * torch.eye(n)
    x, b = a.to(device, dtype), matrix(2, n, 4, seed=1)
    compare(torch.linalg.solve(x, b.to(device, dtype)), torch.linalg.solve(a, b), dtype)
    compare(torch.linalg.solve(x, b.mT.to(device, dtype), left=False), torch.linalg.solve(a, b.mT, left=False), dtype)
    compare(torch.linalg.inv(x), torch.linalg.inv(a), dtype)
    sign, logabsdet = torch.linalg.slogdet(x)
    assert sign.tolist() == torch.linalg.slogdet(a).sign.tolist()
    compare(logabsdet, torch.linalg.slogdet(a).logabsdet, dtype)
    factors, pivots = torch.linalg.lu_factor(x)
    for adjoint in (False, True):
        expected = torch.linalg.solve(a.mT if adjoint else a, b)
        compare(torch.linalg.lu_solve(factors, pivots, b.to(device, dtype), adjoint=adjoint), expected, dtype)


def test_singular(device):
    a = torch.ones(3, 3, device=device)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a)
    assert torch.linalg.det(a).item() == 0


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular(upper, left, unit, device, no_fallback):
    for n, columns in ((3, 1), (3, 5), (17, 33), (64, 16), (100, 7), (129, 40)):
        a = matrix(2, n, n) * 0.1 + 2 * torch.eye(n)
        b = matrix(2, n, columns, seed=1) if left else matrix(2, columns, n, seed=1)
        expected = torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
        # matrices that lie row after row and column after column, one matrix for a batch
        for x in (a.to(device), a.mT.contiguous().to(device).mT):
            for y in (b.to(device), b.mT.contiguous().to(device).mT):
                compare(
                    torch.linalg.solve_triangular(x, y, upper=upper, left=left, unitriangular=unit),
                    expected,
                    torch.float64,
                )
        shared = torch.linalg.solve_triangular(a[:1], b, upper=upper, left=left, unitriangular=unit)
        compare(
            torch.linalg.solve_triangular(a[:1].to(device), b.to(device), upper=upper, left=left, unitriangular=unit),
            shared,
            torch.float64,
        )


def test_gradients(device):
    for function in (
        torch.linalg.inv,
        torch.linalg.det,
        lambda a: torch.linalg.cholesky(a @ a.mT),
        lambda a: torch.linalg.solve(a, a.sin()),
    ):
        gradients = []
        for where in ("cpu", device):
            a = (matrix(2, 6, 6) + 3 * torch.eye(6)).to(where).requires_grad_()
            function(a).sin().sum().backward()
            gradients.append(a.grad)
        compare(gradients[1], gradients[0], torch.float64)
