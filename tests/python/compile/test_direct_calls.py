"""Graphs of generated kernels alone, which are one call of C++."""

import threading
import types

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.codecache import PyCodeCache

from .comparison import check, on, same


@pytest.fixture
def graphs():
    """The functions of graphs that are compiled in the test, newest last."""
    PyCodeCache.cache_clear()

    def functions():
        return [module.call for module in PyCodeCache.modules if hasattr(module, "ocl_kernels")]

    return functions


def is_direct(function):
    return isinstance(function, types.BuiltinFunctionType)


def test_views_reuse_and_inputs_that_are_changed(device, graphs):
    x, y = torch.randn(30, 40), torch.randn(30, 40)
    check(lambda x, y: (F.softmax(x + y, -1).t(), x.sum(0), y, None, (x * y).view(-1)[3:]), [x, y])
    check(lambda x: (((x.sin() * 2).sum(1, keepdim=True) + x).exp().sum(0), x.amax()), [x])

    def change(x, y):
        x.mul_(2)
        y[3:7] += x[3:7]
        return x.sum()

    mine, theirs = on("ocl", [x.clone(), y.clone()]), [x.clone(), y.clone()]
    same(torch.compile(change)(*mine), change(*theirs))
    same(mine, theirs)
    assert all(is_direct(call) for call in graphs())
    assert len(graphs()) == 3


def test_scalars_of_the_host_and_gradients(device, graphs):
    check(lambda x, a: x * a + 1, [torch.randn(50), torch.tensor(2.5)])
    w = torch.randn(7, 9, device=device, requires_grad=True)
    f = torch.compile(lambda w: (w.sin() * w).sum())
    f(w).backward()
    value = w.detach()
    torch.testing.assert_close(w.grad, value.cos() * value + value.sin())
    assert len(graphs()) == 3
    assert all(is_direct(call) for call in graphs())


def test_other_graphs_stay_in_python(device, graphs):
    check(lambda x: (x @ x.t()).relu(), [torch.randn(8, 8)])
    torch.compile(lambda x: x + 1, dynamic=True)(torch.randn(9, 5, device=device))
    assert not any(is_direct(call) for call in graphs())


def test_inputs_that_are_not_as_expected(device, graphs):
    torch.compile(lambda x: x + 1)(torch.zeros(4, 6, device=device))
    (call,) = graphs()
    good, bad = torch.ones(4, 6, device=device), torch.ones(4, 7, device=device)
    arguments = [good]
    assert call(arguments)[0].tolist() == [[2.0] * 6] * 4
    assert arguments == []
    with pytest.raises(AssertionError, match="expected size"):
        call([bad])
    with pytest.raises(ValueError, match="not enough values"):
        call([])
    with pytest.raises(TypeError):
        call([3])


def test_memory_is_freed_as_soon_as_in_python(device, graphs):
    n = 1 << 20

    def chain(x):
        a = x.view(1024, 1024).sum(1, keepdim=True) + x.view(1024, 1024)
        return (a.sum(0, keepdim=True) + a).sum()

    x = torch.ones(n, device=device)
    f = torch.compile(chain)
    f(x)
    torch.ocl.synchronize()
    before = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    result = f(x)
    assert torch.ocl.max_memory_allocated() - before < 2 * 4 * n
    assert torch.ocl.memory_allocated() - before < 1 << 16
    del result
    assert torch.ocl.memory_allocated() == before
    assert is_direct(graphs()[-1])


def test_an_index_out_of_range_is_an_error(device, graphs):
    f = torch.compile(lambda x, i: x[i] + 1)
    x, i = torch.randn(5, 4, device=device), torch.tensor([0, 7], device=device)
    with pytest.raises(RuntimeError, match="index out of range"):
        f(x, i).cpu()
    assert is_direct(graphs()[-1])


def test_threads(device, graphs):
    f = torch.compile(lambda x, y: (x * y + 1).relu().sum(1))
    x, y = torch.randn(64, 50, device=device), torch.randn(64, 50, device=device)
    expected = f(x, y).cpu()
    wrong = []

    def work():
        for _ in range(30):
            if not torch.equal(f(x, y).cpu(), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert is_direct(graphs()[-1])
