"""Whole programs: gradients, optimizers, shapes that change, errors, caches, modes."""

import os
import shutil
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from torch_ocl.inductor import fallback

from .comparison import check, same

pytestmark = pytest.mark.feature("Inductor")


def block():
    return torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5))


def test_gradients(device):
    torch.manual_seed(0)
    model, x, t = block(), torch.randn(7, 12), torch.randint(5, (7,))
    F.cross_entropy(model(x), t).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.to(device)
    F.cross_entropy(torch.compile(model)(x.to(device)), t.to(device)).backward()
    same([p.grad for p in model.parameters()], expected)
    assert not torch.ocl.fallbacks()


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, 0.01),
    lambda p: torch.optim.Adam(p, 0.01, amsgrad=True), lambda p: torch.optim.RMSprop(p, 0.01)],
    ids=["sgd", "adamw", "amsgrad", "rmsprop"])  # fmt: skip
def test_compiled_optimizers(device, make):
    start = [torch.randn(13, 5), torch.randn(40), torch.randn(3, 3, 3)]
    results = []
    for where in ("cpu", device):
        parameters = [torch.nn.Parameter(p.clone().to(where)) for p in start]
        optimizer = make(parameters)
        step = torch.compile(optimizer.step) if where == device else optimizer.step
        for i in range(3):
            for p, s in zip(parameters, start, strict=True):
                p.grad = (s * (i + 1)).to(where)
            step()
        results.append([p.detach() for p in parameters])
    same(results[1], results[0])


def test_sizes_that_change_compile_once(device):
    compiled = torch.compile(lambda x, b: ((x + b).relu().sum(1), (x * 2).softmax(-1), x[:, 1:] + 1), dynamic=True)
    f = lambda x, b: ((x + b).relu().sum(1), (x * 2).softmax(-1), x[:, 1:] + 1)
    built = None
    for rows, columns in [(7, 20), (9, 33), (40, 16), (3, 129), (64, 64)]:
        x, b = torch.randn(rows, columns), torch.randn(columns)
        same(compiled(x.to(device), b.to(device)), f(x, b))
        if built is None:
            built = torch.ocl.build_counts(), counters["stats"]["unique_graphs"]
        assert (torch.ocl.build_counts(), counters["stats"]["unique_graphs"]) == built


def test_dynamic_convolution_and_reductions(device):
    w = torch.randn(4, 3, 3, 3)
    compiled = torch.compile(lambda x, w: F.relu(F.conv2d(x, w)).mean((2, 3)), dynamic=True)
    for size in (8, 11, 17):
        x = torch.randn(2, 3, size, size)
        same(compiled(x.to(device), w.to(device)), F.relu(F.conv2d(x, w)).mean((2, 3)))


def test_dynamic_attention(device):
    def f(x, w):
        q, k, v = (x @ w).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).mean(1)

    torch._dynamo.reset()
    compiled, w, graphs = torch.compile(f, dynamic=True, fullgraph=True), torch.randn(16, 48) / 4, None
    for rows, length in [(2, 5), (3, 9), (4, 12)]:
        x = torch.randn(rows, length, 16)
        leaves = [t.to(device).requires_grad_() for t in (x, w)]
        out = compiled(*leaves)
        same(out, f(x, w))
        out.square().sum().backward()
        expected = [t.clone().requires_grad_() for t in (x, w)]
        f(*expected).square().sum().backward()
        same([t.grad for t in leaves], [t.grad for t in expected])
        graphs = graphs or counters["stats"]["unique_graphs"]
        assert counters["stats"]["unique_graphs"] == graphs
    assert not torch.ocl.fallbacks()


def test_results_that_are_parts_of_one_tensor(device):
    def clip(tensors):
        norms = torch._foreach_norm(tensors)
        scale = (1.0 / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
        return norms[1] + 1, torch._foreach_mul(tensors, scale)

    check(clip, [[torch.randn(n, 5) for n in range(1, 8)]])


def test_autocast(device):
    model, x = block().to(device), torch.randn(7, 12).to(device)
    with torch.autocast(device, torch.bfloat16):
        eager, got = model(x), torch.compile(model)(x)
    assert got.dtype == eager.dtype
    torch.testing.assert_close(got, eager, rtol=3e-2, atol=3e-2)


def test_functional_transforms(device):
    from torch.func import grad, vmap

    x = torch.randn(6, 5)
    check(vmap(grad(lambda v: (v.sin() * v).sum())), [x])


def test_checkpointing_and_custom_functions(device):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    def f(x):
        y = torch.utils.checkpoint.checkpoint(lambda v: v.sin().exp(), x, use_reentrant=False)
        return Twice.apply(y).sum()

    x = torch.randn(30, device=device, requires_grad=True)
    torch.compile(f)(x).backward()
    torch.testing.assert_close(x.grad, 3 * x.sin().exp().detach() * x.detach().cos())


def test_control_flow(device):
    def f(x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,))

    compiled, x = torch.compile(f), torch.ones(5, device=device)
    assert compiled(x).tolist() == [2] * 5 and compiled(-x).tolist() == [-2] * 5


def test_graph_breaks_and_streams(device):
    def f(x):
        y = x * 2
        if y.sum().item() > 0:
            y = y + 1
        return y

    x = torch.ones(4, device=device)
    with torch.ocl.stream(torch.ocl.Stream()):
        got = torch.compile(f)(x)
    torch.ocl.synchronize()
    assert got.tolist() == [3] * 4


def test_every_mode(device):
    x = torch.randn(50, 20)
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(lambda x: (x @ x.t()).relu() * 2, [x / 10], mode=mode, fullgraph=True)


def test_an_index_out_of_range_is_an_error(device):
    table, index = torch.randn(10, 4, device=device), torch.tensor([1, 12], device=device)
    f = torch.compile(lambda t, i: t[i] * 2)
    with pytest.raises(RuntimeError, match="index out of range"):
        f(table, index).cpu()
    assert f(table, index % 10).shape == (2, 4)
    with pytest.raises(RuntimeError, match="index out of range"):
        torch.compile(lambda t, i: F.embedding(i, t) + 1)(table, index).cpu()
    torch.ocl.synchronize()


def test_wrong_shapes_raise_what_eager_raises(device):
    with pytest.raises(RuntimeError, match=r"size of tensor|broadcast"):
        torch.compile(lambda x, y: x + y)(torch.ones(3, device=device), torch.ones(4, device=device))


def test_a_kernel_that_does_not_build_leaves_the_graph_to_the_operators(device, monkeypatch):
    from torch_ocl.inductor import source

    monkeypatch.setattr(fallback, "strict", False)
    fallback._warn_once.cache_clear()
    original = source.program_text
    monkeypatch.setattr("torch_ocl.inductor.runtime.program_text", lambda *a: original(*a) + "\nthis is no OpenCL C\n")
    x = torch.randn(20, device=device, requires_grad=True)
    with pytest.warns(UserWarning, match="runs without being compiled"):
        out = torch.compile(lambda x: (x.sin() * 2).sum())(x)
    out.backward()
    torch.testing.assert_close(out, (x.sin() * 2).sum())
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_results_in_another_memory_order_than_predicted_are_put_in_order(device, monkeypatch):
    @torch.library.custom_op("torch_ocl_test::turned", mutates_args=(), device_types="ocl")
    def turned(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).t().contiguous().t()

    turned.register_fake(torch.empty_like)
    x = torch.randn(5, 7, device=device)
    with pytest.raises(AssertionError):
        torch.compile(lambda x: turned(x) + 1)(x)
    torch._dynamo.reset()
    monkeypatch.setattr(fallback, "strict", False)
    assert torch.equal(torch.compile(lambda x: turned(x) + 1)(x), x * 2 + 1)


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor's CPU kernels need a C++ compiler")
def test_cpu_graphs_compile_beside_those_of_the_device(device):
    f, x = torch.compile(lambda x: (x * 2).softmax(-1)), torch.randn(5, 7)
    same(f(x.to(device)), (x * 2).softmax(-1))
    got = f(x)
    assert got.device.type == "cpu"
    torch.testing.assert_close(got, (x * 2).softmax(-1))
    mixed = torch.compile(lambda x, y: (x * 2 + 1, y.exp().sum()))
    here, there = mixed(x, x.to(device))
    torch.testing.assert_close(here, x * 2 + 1)
    same(there, x.exp().sum())


SCRIPT = """
import torch, torch_ocl
from torch._dynamo.utils import counters
f = torch.compile(lambda x: (x * 2 + 1).softmax(-1).sum(0))
f(torch.ones(20, 30, device="ocl")).cpu()
print("RESULT", counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"],
      torch.ocl.build_counts()[0])
"""


def test_a_second_process_compiles_nothing(device, tmp_path):
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs"),
        "TORCH_OCL_CACHE_DIR": str(tmp_path / "programs"),
    }
    lines = []
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        lines.append(next(line for line in out.stdout.splitlines() if line.startswith("RESULT")).split()[1:])
    assert lines[0][1] == "1" and int(lines[0][2]) >= 1
    assert lines[1] == ["1", "0", "0"]


def test_exported_programs_are_compiled_where_they_run(device, tmp_path):
    class Network(torch.nn.Module):
        def forward(self, x):
            return (x * 2).relu()

    x = torch.randn(4)
    torch.export.save(torch.export.export(Network(), (x.to(device),)), tmp_path / "program.pt2")
    same(torch.compile(torch.export.load(tmp_path / "program.pt2").module())(x.to(device)), (x * 2).relu())
