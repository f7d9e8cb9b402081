"""Cholesky, LU, triangular systems and what is made of them, against the CPU; sizes around blocks (64) and panels
(32)."""

import pytest
import torch

from conformance.tolerances import assert_close

SIZES = (1, 5, 33, 65, 100)


def matrix(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(n):
    a = matrix(2, n, n)
    return a @ a.mT + n * torch.eye(n)


def compare(function, *operands, dtype):
    """function of the operands, which are rounded to dtype first, is as exact as the first one's condition allows."""
    rounded = [t.to(dtype) for t in operands]
    actual = function(*(t.to("ocl") for t in rounded))
    assert actual.device.type == "ocl" and actual.dtype == dtype
    exact = [t.double() for t in rounded]
    condition = torch.linalg.cond(exact[0]).max().item()
    assert condition * torch.finfo(dtype).eps < 1e-3
    assert_close(actual, function(*exact), terms=exact[0].shape[-1], condition=condition)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n, dtype, device, no_fallback):
    a, b = positive(n), matrix(2, n, 3, seed=1)
    for upper in (False, True):
        factor = lambda a: torch.linalg.cholesky(a, upper=upper)
        compare(factor, a, dtype=dtype)
        compare(lambda a: torch.cholesky_inverse(factor(a), upper=upper), a, dtype=dtype)
        compare(lambda a, b: torch.cholesky_solve(b, factor(a), upper=upper), a, b, dtype=dtype)


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
        p, lower, upper = torch.linalg.lu(a.to(device, dtype))
        growth = torch.linalg.lu(a).U.abs().max().item()  # of what is added up, for |lower| <= 1
        assert_close(p @ lower @ upper, a.to(dtype), terms=n, condition=growth)
        assert lower.tril().equal(lower) and upper.triu().equal(upper) and lower.abs().max().item() <= 1
    a = matrix(2, n, n) + 2 * n**0.5 * torch.eye(n)  # eigenvalues of the first part have up to n**0.5
    b = matrix(2, n, 4, seed=1)
    compare(torch.linalg.solve, a, b, dtype=dtype)
    compare(lambda a, b: torch.linalg.solve(a, b.mT, left=False), a, b, dtype=dtype)
    compare(torch.linalg.inv, a, dtype=dtype)
    assert torch.linalg.slogdet(a.to(device, dtype)).sign.tolist() == torch.linalg.slogdet(a).sign.tolist()
    compare(lambda a: torch.linalg.slogdet(a).logabsdet, a, dtype=dtype)
    for adjoint in (False, True):
        compare(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=adjoint), a, b, dtype=dtype)


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
        solve = lambda x, y: torch.linalg.solve_triangular(x, y, upper=upper, left=left, unitriangular=unit)
        expected = solve(a, b)
        # matrices that lie row after row and column after column, one matrix for a batch
        for x in (a.to(device), a.mT.contiguous().to(device).mT):
            for y in (b.to(device), b.mT.contiguous().to(device).mT):
                assert_close(solve(x, y), expected, terms=n**2)
        assert_close(solve(a[:1].to(device), b.to(device)), solve(a[:1], b), terms=n**2)


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
        assert_close(gradients[1], gradients[0], terms=6**3)
