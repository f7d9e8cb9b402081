"""_foreach_* operators against the CPU, on the fast path and on mixed lists that take ATen's loop."""

import pytest
import torch

SHAPES = [(3,), (64, 33), (), (5, 7, 3, 3), (0,), (20011,)]


def lists(device, count, dtype=torch.float32, positive=False):
    """`count` lists of equal shapes on the CPU and their copies on the device."""
    cpu = [[torch.randn(s, dtype=torch.float32) for s in SHAPES] for _ in range(count)]
    cpu = [[(t.abs() + 0.1 if positive else t).to(dtype) for t in one] for one in cpu]
    return cpu, [[t.to(device) for t in one] for one in cpu]


def same(expected, actual):
    for e, a in zip(expected, actual, strict=True):
        torch.testing.assert_close(a.cpu(), e)


UNARY = ["abs", "exp", "log", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "sqrt", "tanh", "sin", "floor"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name, dtype):
    (a,), (b,) = lists(device, 1, dtype, positive=True)
    same(getattr(torch, f"_foreach_{name}")(a), getattr(torch, f"_foreach_{name}")(b))
    getattr(torch, f"_foreach_{name}_")(a)
    getattr(torch, f"_foreach_{name}_")(b)
    same(a, b)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum"])
@pytest.mark.parametrize("form", ["scalar", "scalars", "list"])
def test_binary(device, name, form):
    cpu, ocl = lists(device, 2, positive=True)
    other = {"scalar": (0.75, 0.75), "scalars": ([0.5 + i for i in range(len(SHAPES))],) * 2, "list": (cpu[1], ocl[1])}[
        form
    ]
    same(getattr(torch, f"_foreach_{name}")(cpu[0], other[0]), getattr(torch, f"_foreach_{name}")(ocl[0], other[1]))
    getattr(torch, f"_foreach_{name}_")(cpu[0], other[0])
    getattr(torch, f"_foreach_{name}_")(ocl[0], other[1])
    same(cpu[0], ocl[0])


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(device, name):
    cpu, ocl = lists(device, 2)
    same(getattr(torch, f"_foreach_{name}")(*cpu, alpha=-0.3), getattr(torch, f"_foreach_{name}")(*ocl, alpha=-0.3))


@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_tensor_operand(device, name):
    cpu, ocl = lists(device, 1)
    value = torch.tensor(1.7)
    for on_device in (value.to(device), value):
        same(getattr(torch, f"_foreach_{name}")(cpu[0], value), getattr(torch, f"_foreach_{name}")(ocl[0], on_device))
    same(torch._foreach_add(cpu[0], value, alpha=2), torch._foreach_add(ocl[0], value.to(device), alpha=2))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("value", [0.5, [0.1 * i for i in range(len(SHAPES))]], ids=["scalar", "scalars"])
def test_ternary(device, name, value):
    cpu, ocl = lists(device, 3, positive=True)
    same(getattr(torch, f"_foreach_{name}")(*cpu, value), getattr(torch, f"_foreach_{name}")(*ocl, value))
    getattr(torch, f"_foreach_{name}_")(*cpu, value)
    getattr(torch, f"_foreach_{name}_")(*ocl, value)
    same(cpu[0], ocl[0])


def test_lerp(device):
    cpu, ocl = lists(device, 3)
    same(torch._foreach_lerp(*cpu), torch._foreach_lerp(*ocl))
    for weight in (0.1, 0.9):
        same(torch._foreach_lerp(cpu[0], cpu[1], weight), torch._foreach_lerp(ocl[0], ocl[1], weight))


def test_copy_and_zero(device):
    cpu, ocl = lists(device, 2)
    torch._foreach_copy_(ocl[0], ocl[1])
    same(cpu[1], ocl[0])
    torch._foreach_copy_(ocl[0], cpu[0])  # from another device
    same(cpu[0], ocl[0])
    torch._foreach_zero_(ocl[0])
    same([torch.zeros_like(t) for t in cpu[0]], ocl[0])


@pytest.mark.parametrize("order", [1, 2, float("inf"), 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm(device, order, dtype):
    cpu = [torch.randn(s).to(dtype) for s in SHAPES if s != (0,)]
    actual = torch._foreach_norm([t.to(device) for t in cpu], order)
    for e, a in zip(torch._foreach_norm(cpu, order), actual, strict=True):
        torch.testing.assert_close(
            a.cpu(), e, rtol=1e-5 if dtype == torch.float32 else None, atol=0 if dtype == torch.float32 else None
        )
    if order == 2:
        empty = torch._foreach_norm([torch.ones(3, device=device), torch.empty(0, device=device)], 2)
        assert empty[1].item() == 0


def test_mixed_lists_take_the_loop(device):
    cpu = [torch.randn(4, 5), torch.arange(6), torch.randn(3, 7).t()]
    ocl = [t.to(device) for t in cpu]
    same(torch._foreach_add(cpu, 2), torch._foreach_add(ocl, 2))
    other = [torch.ones(5), torch.ones(6), torch.ones(7, 1)]  # broadcasting
    same(torch._foreach_mul(cpu, other), torch._foreach_mul(ocl, [t.to(device) for t in other]))
    strided = torch.randn(6, 8)
    a, b = [strided[:, ::2].clone()], [strided.to(device)[:, ::2]]
    torch._foreach_mul_(a, 2.0)
    torch._foreach_mul_(b, 2.0)
    same(a, b)
    with pytest.raises(RuntimeError):
        torch._foreach_add(ocl, ocl[:2])


def test_gradients_and_versions(device):
    x = [torch.randn(5, device=device, requires_grad=True)]
    y = torch._foreach_mul(x, 3.0)[0]
    y.sum().backward()
    assert torch.equal(x[0].grad.cpu(), torch.full((5,), 3.0))
    t = torch.ones(3, device=device)
    version = t._version
    torch._foreach_add_([t], 1.0)
    assert t._version > version


def test_clip_grad_norm(device, no_fallback):
    parameters = [torch.randn(s).requires_grad_() for s in SHAPES if s != (0,)]
    mirrors = [p.detach().to(device).requires_grad_() for p in parameters]
    for p, m in zip(parameters, mirrors, strict=True):
        p.grad = torch.randn_like(p)
        m.grad = p.grad.to(device)
    a = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    b = torch.nn.utils.clip_grad_norm_(mirrors, 1.0)
    torch.testing.assert_close(b.cpu(), a)
    same([p.grad for p in parameters], [m.grad for m in mirrors])


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale(device, bad):
    grads = [torch.randn(s, device=device) for s in SHAPES]
    expected = [g.cpu() * 0.25 for g in grads]
    if bad is not None:
        grads[1][3, 4] = bad
        expected[1][3, 4] = bad
    found = torch.zeros((), device=device)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor(0.25, device=device))
    assert found.item() == (bad is not None)
    for e, g in zip(expected, grads, strict=True):
        torch.testing.assert_close(g.cpu(), e, equal_nan=True)


def test_grad_scaler(device, no_fallback):
    model = torch.nn.Linear(9, 5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 9, device=device)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2048.0
    before = model.weight.detach().cpu().clone()
    optimizer.zero_grad()
    scaler.scale(model(torch.full((4, 9), float("inf"), device=device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0 and torch.equal(model.weight.detach().cpu(), before)


def test_channels_last_models_take_one_launch(device):
    """A 1x1 weight in channels-last has other strides than its contiguous gradient, but its elements lie in the same
    places."""
    weights = [torch.randn(8, 4, k, k).to(memory_format=torch.channels_last).to(device) for k in (1, 3)]
    grads = [
        torch.randn(8, 4, 1, 1).to(device),
        torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last).to(device),
    ]
    assert weights[0].stride() != grads[0].stride()
    expected = [w.cpu() + g.cpu() for w, g in zip(weights, grads)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch._foreach_add_(weights, grads)
    names = {event.key for event in profile.key_averages()}
    assert "aten::_foreach_add_" in names and not names & {"aten::add_", "aten::add"}
    for actual, e in zip(weights, expected, strict=True):
        assert torch.equal(actual.cpu(), e)
