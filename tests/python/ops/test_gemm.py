"""Matrix products against the CPU: values, layouts, errors, and that nothing falls back."""

import pytest
import torch

from conformance.tolerances import assert_close
from conftest import without_fallback

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.complex64]
SIZES = [(1, 1, 1), (7, 5, 3), (17, 33, 65), (3, 129, 64), (129, 10, 40), (70, 90, 16)]


def values(*shape, dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)
    return torch.randint(-9, 9, shape, dtype=dtype)


def check(function, *tensors, device="ocl", **options):
    """function of the tensors on the device agrees with float64 on the CPU; integers are equal."""
    dtype = tensors[0].dtype
    exact = {torch.int32: torch.int32, torch.int64: torch.int64, torch.complex64: torch.complex128}
    expected = function(*(t.to(exact.get(dtype, torch.float64)) for t in tensors))
    moved = [t.to(device) for t in tensors]
    with without_fallback():
        actual = function(*moved)
    assert actual.dtype == dtype and actual.device.type == device
    assert_close(actual, expected, terms=max(t.numel() for t in tensors), **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_mm(device, dtype, m, n, k):
    check(torch.mm, values(m, k, dtype=dtype), values(k, n, dtype=dtype))
    check(lambda a, b: torch.mm(a.t(), b), values(k, m, dtype=dtype), values(k, n, dtype=dtype))
    check(lambda a, b: torch.mm(a, b.t()), values(m, k, dtype=dtype), values(n, k, dtype=dtype))
    check(
        lambda a, b: torch.mm(a[:, ::2], b[1::2]),
        values(m, 2 * k, dtype=dtype),
        values(2 * k + 1, n, dtype=dtype)[: 2 * k],
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(17, 33), (33,), (1, 33), (17, 1), ()])
def test_addmm_broadcasts_what_is_added(device, dtype, shape):
    a, b, d = values(17, 20, dtype=dtype), values(20, 33, dtype=dtype), values(*shape, dtype=dtype)
    check(lambda a, b, d: torch.addmm(d, a, b), a, b, d)
    check(lambda a, b, d: torch.addmm(d, a, b, beta=3, alpha=2), a, b, d)
    check(lambda a, b, d: torch.addmm(d, a, b, beta=0), a, b, d)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place_and_out(device, dtype):
    a, b, d = values(17, 20, dtype=dtype), values(20, 33, dtype=dtype), values(17, 33, dtype=dtype)
    check(lambda a, b, d: d.clone().addmm_(a, b, beta=2), a, b, d)
    check(lambda a, b, d: d.t().contiguous().t().addmm_(a, b), a, b, d)
    check(lambda a, b, d: torch.mm(a, b, out=d.new_empty(33, 34).t()[:17]), a, b, d)
    check(lambda a, b, d: torch.mm(a, b, out=d.new_empty(34, 66)[::2, ::2]), a, b, d)
    check(lambda a, b, d: torch.mm(a, b, out=d.new_empty(0)), a, b, d)


def test_what_is_added_may_be_another_view_of_the_output(device):
    a, b, d = (values(20, 20, dtype=torch.float32) for _ in range(3))
    moved = d.to(device)
    torch.addmm(moved.t(), a.to(device), b.to(device), out=moved)
    torch.testing.assert_close(moved.cpu(), torch.addmm(d.t(), a, b), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bmm(device, dtype):
    a, b = values(5, 17, 20, dtype=dtype), values(5, 20, 33, dtype=dtype)
    check(torch.bmm, a, b)
    check(lambda a, b: torch.bmm(b.mT, a.mT), a, b)
    check(lambda a, b: torch.bmm(a[:1].expand(5, -1, -1), b), a, b)
    check(lambda a, b: torch.matmul(a, b[0]), a, b)
    check(lambda a, b: torch.einsum("bik,bkj->bij", a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_baddbmm_and_addbmm(device, dtype):
    a, b = values(5, 17, 20, dtype=dtype), values(5, 20, 33, dtype=dtype)
    check(lambda a, b, d: torch.baddbmm(d, a, b, beta=2, alpha=3), a, b, values(5, 17, 33, dtype=dtype))
    check(lambda a, b, d: torch.baddbmm(d, a, b), a, b, values(17, 1, dtype=dtype))
    # the sum is stored after every matrix, as on CUDA
    check(lambda a, b, d: torch.addbmm(d, a, b, beta=2, alpha=3), a, b, values(17, 33, dtype=dtype), steps=1)
    check(lambda a, b, d: d.clone().addbmm_(a, b), a, b, values(17, 33, dtype=dtype), steps=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_vectors(device, dtype):
    check(torch.mv, values(70, 50, dtype=dtype), values(50, dtype=dtype))
    check(lambda a, x: torch.mv(a.t(), x), values(50, 70, dtype=dtype), values(50, dtype=dtype))
    check(
        lambda a, x, y: torch.addmv(y, a, x, beta=2),
        values(70, 50, dtype=dtype),
        values(50, dtype=dtype),
        values(70, dtype=dtype),
    )
    check(
        lambda a, x, y: torch.addmv(y[0], a, x),
        values(70, 50, dtype=dtype),
        values(50, dtype=dtype),
        values(70, dtype=dtype),
    )
    for n in (1, 15, 16, 17, 63, 64, 65, 1000, 40_000):
        check(torch.dot, values(n, dtype=dtype), values(n, dtype=dtype))
    check(torch.vdot, values(1000, dtype=dtype), values(1000, dtype=dtype))
    check(lambda x, y: torch.dot(x[::3], y[1::3]), values(300, dtype=dtype), values(300, dtype=dtype))


def test_conjugated_and_negated_views(device):
    a, b = values(9, 7, dtype=torch.complex64), values(9, 8, dtype=torch.complex64)
    check(lambda a, b: torch.mm(a.mH, b), a, b)
    check(lambda a, b: torch.dot(a[:, 0].conj(), b[:, 0]), a, b)


@pytest.mark.parametrize("use_gelu", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_addmm_activation(device, dtype, use_gelu):
    a, b, d = values(40, 20, dtype=dtype), values(20, 33, dtype=dtype), values(33, dtype=dtype)
    check(lambda a, b, d: torch._addmm_activation(d, a, b, use_gelu=use_gelu), a, b, d)


@pytest.mark.parametrize("shape", [(16, 64), (3, 5, 64), (64,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_with_gradients(device, dtype, shape):
    x, w, bias = values(*shape, dtype=dtype), values(48, 64, dtype=dtype), values(48, dtype=dtype)

    def gradients(x, w, bias):
        leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
        y = torch.nn.functional.linear(*leaves)
        return torch.cat([g.flatten() for g in torch.autograd.grad(y, leaves, torch.ones_like(y))])

    check(torch.nn.functional.linear, x, w, bias)
    check(gradients, x, w, bias)


def test_empty(device):
    for m, n, k in [(0, 3, 4), (3, 0, 4), (3, 4, 0)]:
        check(torch.mm, values(m, k, dtype=torch.float32), values(k, n, dtype=torch.float32))
        check(
            lambda a, b, d: torch.addmm(d, a, b, beta=2),
            *(values(*s, dtype=torch.float32) for s in [(m, k), (k, n), (m, n)]),
        )
    check(torch.dot, values(0, dtype=torch.float32), values(0, dtype=torch.float32))
    check(torch.bmm, values(0, 3, 4, dtype=torch.float32), values(0, 4, 5, dtype=torch.float32))


def test_nan_behind_a_zero_beta_is_ignored(device):
    d = torch.full((20, 33), float("nan"), device=device)
    result = torch.addmm(d, torch.ones(20, 5, device=device), torch.ones(5, 33, device=device), beta=0)
    assert torch.equal(result.cpu(), torch.full((20, 33), 5.0))


def test_errors(device):
    a, b = torch.ones(2, 3, device=device), torch.ones(4, 5, device=device)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.mm(a, b)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.mm(a, torch.ones(3, 5, device=device, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="1D tensors expected"):
        torch.dot(a, b)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.mm(a.bool(), a.t().bool())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_with_another_result_type(dtype, no_fallback):
    """The CPU has no such operator: the operands are products of float32."""
    torch.manual_seed(5)
    a, b, c = torch.randn(2, 7, 19).to(dtype), torch.randn(2, 19, 11).to(dtype), torch.randn(2, 7, 11).to(dtype)
    x, y, z = (t.to("ocl") for t in (a, b, c))
    pairs = [
        (torch.mm(x[0], y[0], out_dtype=torch.float32), a[0].float() @ b[0].float()),
        (torch.bmm(x, y, out_dtype=torch.float32), a.float() @ b.float()),
        (torch.addmm(z[0], x[0], y[0], out_dtype=torch.float32), c[0].float() + a[0].float() @ b[0].float()),
        (torch.baddbmm(z, x, y, out_dtype=torch.float32), c.float() + a.float() @ b.float()),
    ]
    for actual, expected in pairs:
        assert actual.device.type == "ocl"
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(x[0], y[0], out_dtype=torch.int32)
