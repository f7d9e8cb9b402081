"""Sparse tensors of every layout against the CPU: construction, conversion, arithmetic, products with gradients,
modules and optimizers that hold them."""

import contextlib
import copy
import io

import pytest
import torch
from torch import nn

from conformance.tolerances import assert_close

LAYOUTS = ["coo", "csr", "csc", "bsr", "bsc"]
# Operators that run on the CPU; every other one must not.
ON_CPU = {
    "aten::_sparse_softmax", "aten::_sparse_sparse_matmul", "aten::bmm", "aten::index_select",
    "aten::_sparse_mm_reduce_impl", "aten::triangular_solve.X", "aten::_to_sparse_bsr", "aten::_to_sparse_bsc",
    "aten::addmm.out", "aten::add.out", "aten::_sparse_csr_sum.dim_dtype", "aten::mul.out",
}  # fmt: skip


@contextlib.contextmanager
def falls_back(*allowed):
    before = torch.ocl.fallbacks()
    yield
    new = {name for name, count in torch.ocl.fallbacks().items() if count != before.get(name, 0)}
    assert new <= set(allowed), f"ran on the CPU: {new}"


def matrix(rows=7, columns=9, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows + columns)
    values = torch.randn(rows, columns, generator=generator)
    return (values * (torch.rand(rows, columns, generator=generator) < 0.35)).to(dtype)


def sparse(dense, layout):
    if layout == "coo":
        return dense.to_sparse()
    return getattr(dense, f"to_sparse_{layout}")(*([(2, 3)] if layout.startswith("b") else []))


def parts(t):
    if t.layout is torch.strided:
        return [t]
    if t.layout is torch.sparse_coo:
        t = t.coalesce()
        return [t.indices(), t.values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    return [t.ccol_indices(), t.row_indices(), t.values()]


def same(actual, expected, **tolerance):
    """Equal layout, sizes, indices and values; a sparse result lies on the device with all that it consists of."""
    assert actual.device.type == "ocl" and actual.layout == expected.layout and actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    for a, e in zip(parts(actual.detach()), parts(expected.detach())):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu(), e, **(tolerance or {"rtol": 2e-6, "atol": 2e-6}))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moves_and_conversions(layout, device):
    dense = matrix(6, 9)
    host = sparse(dense, layout)
    with falls_back(*(["aten::_to_sparse_bsr", "aten::_to_sparse_bsc"] if layout[0] == "b" else [])):
        here = host.to(device)
        same(here, host)
        assert torch.equal(here.to_dense().cpu(), dense)
        same(sparse(dense.to(device), layout), host)
        same(here.clone(), host)
        same(copy.deepcopy(here), host)
        same(here.double(), host.double())
    assert str(here).replace(", device='ocl:0'", "").replace("device='ocl:0', ", "").split() == str(host).split()
    back = here.cpu()
    assert back.layout == host.layout and torch.equal(back.to_dense(), dense)
    stored = io.BytesIO()
    torch.save(here, stored)
    stored.seek(0)
    same(torch.load(stored), host)


@pytest.mark.parametrize("to", ["coo", "csr", "csc"])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_conversions_between_layouts(layout, to, device):
    host = sparse(matrix(), layout)
    with falls_back():
        same(sparse(host.to(device), to), sparse(host, to))


def test_construction(device):
    with falls_back():
        indices, values = torch.tensor([[0, 1, 0, 2], [2, 0, 2, 1]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
        here = torch.sparse_coo_tensor(indices.to(device), values.to(device), (3, 4))
        host = torch.sparse_coo_tensor(indices, values, (3, 4))
        assert not here.is_coalesced() and here._nnz() == 4 and here.coalesce()._nnz() == 3
        same(here, host)
        assert torch.equal(here.to_dense().cpu(), host.to_dense())
        same(torch.sparse_coo_tensor(indices, values, device=device), torch.sparse_coo_tensor(indices, values))
        compressed = ([0, 1, 1, 3], [2, 0, 3], [1.0, 2.0, 3.0], (3, 4))
        same(torch.sparse_csr_tensor(*compressed, device=device), torch.sparse_csr_tensor(*compressed))
        assert torch.zeros(3, 4, layout=torch.sparse_coo, device=device).to_dense().cpu().abs().sum() == 0
        assert torch.empty(3, 4, layout=torch.sparse_csr, device=device)._nnz() == 0
    with pytest.raises(RuntimeError, match="crow_indices"):
        torch.sparse_csr_tensor([0, 1, 9], [0, 1], [1.0, 2.0], (2, 2), device=device, check_invariants=True)
    with pytest.raises(RuntimeError, match="indices"):
        torch.sparse_coo_tensor([[0, 9]], [1.0, 2.0], (2,), device=device, check_invariants=True)


def test_coalesce(device):
    torch.manual_seed(3)
    indices = torch.randint(0, 5, (2, 200))
    for values in (torch.randn(200), torch.randn(200, 3), torch.randint(0, 9, (200,)), torch.rand(200) > 0.5):
        sizes = (5, 5, *values.shape[1:])
        host = torch.sparse_coo_tensor(indices, values, sizes)
        with falls_back():
            here = host.to(device).coalesce()
        assert here.is_coalesced()
        same(here, host.coalesce(), rtol=1e-5, atol=1e-5)


CALLS = {
    "add": lambda x, y, d: x + y,
    "sub": lambda x, y, d: x - y * 2,
    "multiply": lambda x, y, d: x * y,
    "number": lambda x, y, d: x * 2.5,
    "divide": lambda x, y, d: x / 4,
    "neg": lambda x, y, d: -x,
    "sin": lambda x, y, d: x.sin(),
    "sqrt": lambda x, y, d: x.abs().sqrt(),
    "relu": lambda x, y, d: x.relu(),
    "pow": lambda x, y, d: x.pow(2),
    "sum": lambda x, y, d: x.sum(),
    "sum_dim": lambda x, y, d: torch.sparse.sum(x, 1),
    "norm": lambda x, y, d: x.norm(),
    "transpose": lambda x, y, d: x.t().coalesce(),
    "cat": lambda x, y, d: torch.cat([x, y]),
    "stack": lambda x, y, d: torch.stack([x, y]),
    "row": lambda x, y, d: x[2],
    "to_dense_plus": lambda x, y, d: torch.ones(7, 9, device=d) + x,
    "mask": lambda x, y, d: torch.arange(63.0, device=d).view(7, 9).sparse_mask(x),
    "resize": lambda x, y, d: x.clone().sparse_resize_((8, 9), 2, 0),
    "zero": lambda x, y, d: x.clone().zero_(),
    "softmax": lambda x, y, d: torch.sparse.softmax(x, 1),
    "index_select": lambda x, y, d: x.index_select(0, torch.tensor([3, 0], device=d)),
    "sparse_product": lambda x, y, d: torch.sparse.mm(x, y.t()),
}
FALLS_BACK = {"softmax": "aten::_sparse_softmax", "index_select": "aten::index_select",
              "sparse_product": "aten::_sparse_sparse_matmul", "row": "aten::index_select"}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_operators(name, device):
    x, y = matrix().to_sparse(), matrix(7, 9).roll(1, 1).to_sparse()
    expected = CALLS[name](x, y, "cpu")
    with falls_back(FALLS_BACK.get(name, "")):
        actual = CALLS[name](x.to(device), y.to(device), device)
    same(actual, expected)


@pytest.mark.parametrize("layout", LAYOUTS[1:3])
def test_operators_of_compressed_layouts(layout, device):
    x = sparse(matrix(), layout)
    for call in (
        lambda t: t * 2,
        lambda t: t.sin(),
        lambda t: -t,
        lambda t: t.abs(),
        lambda t: t.sum(),
        lambda t: t.t(),
    ):
        with falls_back():
            actual = call(x.to(device))
        same(actual, call(x))


@pytest.mark.parametrize("columns", [1, 3, 16, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_products(layout, dtype, columns, device):
    a, x = matrix(41, 29, dtype), torch.randn(29, columns).to(dtype)
    exact = a.double() @ x.double()
    with falls_back():
        here = sparse(a.to(device), layout)
        assert_close(here @ x.to(device), exact, dtype, terms=29)
        assert_close(here @ x.t().contiguous().to(device).t(), exact, dtype, terms=29)
        assert_close(x.t().to(device) @ sparse(a.t().contiguous().to(device), layout), exact.t(), dtype, terms=29)
        assert_close(here @ x[:, 0].to(device), exact[:, 0], dtype, terms=29)
        added = torch.full((41, columns), 3.0, dtype=dtype)
        result = torch.addmm(added.to(device), here, x.to(device), beta=0.5, alpha=2)
        assert result.device.type == "ocl"
        assert_close(result, 1.5 + 2 * exact, dtype, terms=29, steps=1)


def test_product_without_beta_ignores_nan(device):
    a, x = matrix().to_sparse_csr(), torch.randn(9, 4)
    out = torch.full((7, 4), float("nan"), device=device)
    with falls_back():
        result = torch.addmm(out, a.to(device), x.to(device), beta=0)
    same(result, a @ x, rtol=1e-5, atol=1e-5)


def test_product_of_empty_rows_and_matrices(device):
    a = torch.zeros(5, 6)
    a[2, 3] = 2.0
    with falls_back():
        for layout in LAYOUTS[:3]:
            same(sparse(a.to(device), layout) @ torch.ones(6, 2, device=device), a @ torch.ones(6, 2))
            empty = sparse(torch.zeros(5, 6).to(device), layout) @ torch.ones(6, 2, device=device)
            assert empty.shape == (5, 2) and not empty.cpu().any()
    with pytest.raises(RuntimeError, match=r"cannot be multiplied|must match|size mismatch"):
        a.to_sparse_csr().to(device) @ torch.ones(5, 2, device=device)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_gradients_of_products(layout, device):
    x = torch.randn(9, 5)
    results = []
    for place in ("cpu", device):
        a = sparse(matrix().to(place), layout).detach().requires_grad_()
        dense = x.to(place).clone().requires_grad_()
        with falls_back("aten::_sparse_mm_reduce_impl"):
            torch.sparse.mm(a, dense).square().sum().backward()
        results.append((a.grad, dense.grad))
    for actual, expected in zip(results[1], results[0]):
        same(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_sampled_product(beta, device):
    a, x, y = matrix().to_sparse_csr(), torch.randn(7, 20), torch.randn(20, 9)
    expected = torch.sparse.sampled_addmm(a, x, y, beta=beta, alpha=2.0)
    with falls_back():
        actual = torch.sparse.sampled_addmm(a.to(device), x.to(device), y.to(device), beta=beta, alpha=2.0)
    same(actual, expected, rtol=1e-5, atol=1e-5)


class Holder(nn.Module):
    """As whisper does: buffers that are sparse."""

    def __init__(self):
        super().__init__()
        self.register_buffer("coo", matrix().to_sparse())
        self.register_buffer("csr", matrix().to_sparse_csr())
        self.linear = nn.Linear(9, 3)


def test_modules_with_sparse_buffers(device):
    host, here = Holder(), Holder().to(device)
    same(here.coo, host.coo)
    same(here.csr, host.csr)
    here.load_state_dict(host.state_dict())
    assert here.half().coo.dtype == torch.float16 and here.cpu().coo.device.type == "cpu"


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
@pytest.mark.parametrize("layer", ["embedding", "sum", "mean"])
def test_sparse_embeddings_train(layer, optimizer, device):
    weights = []
    for place in ("cpu", device):
        torch.manual_seed(0)
        make = nn.Embedding if layer == "embedding" else nn.EmbeddingBag
        model = make(20, 4, sparse=True, **({} if layer == "embedding" else {"mode": layer})).to(place)
        steps = optimizer(model.parameters(), lr=0.1)
        with falls_back():
            for _ in range(3):
                steps.zero_grad()
                model(torch.tensor([[1, 2, 1], [3, 4, 19]], device=place)).square().sum().backward()
                assert model.weight.grad.is_sparse and model.weight.grad.device.type == torch.device(place).type
                steps.step()
        weights.append(model.weight)
    same(weights[1], weights[0], rtol=1e-5, atol=1e-5)


def test_what_runs_on_the_cpu_is_right(device):
    a, x = matrix(6, 9), torch.randn(9, 4)
    blocks = a.to_sparse_bsr((3, 3))
    same(blocks.to(device) @ x.to(device), blocks @ x, rtol=1e-5, atol=1e-5)
    batch = torch.stack([a, a * 2]).to_sparse()
    same(torch.bmm(batch.to(device), torch.stack([x, x]).to(device)), torch.bmm(batch, torch.stack([x, x])))
    csr = a.to_sparse_csr()
    same(csr.to(device) + csr.to(device), csr + csr)
    mean = torch.sparse.mm(csr, x, reduce="mean")
    same(torch.sparse.mm(csr.to(device), x.to(device), reduce="mean"), mean, rtol=1e-5, atol=1e-5)


def test_policy_forbids_the_cpu(device):
    policy = torch.ocl.fallback_policy()
    torch.ocl.set_fallback_policy("error")
    try:
        with pytest.raises(NotImplementedError, match="_sparse_softmax"):
            torch.sparse.softmax(matrix().to_sparse().to(device), 1)
    finally:
        torch.ocl.set_fallback_policy(policy)
