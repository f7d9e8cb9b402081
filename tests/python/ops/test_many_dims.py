"""Tensors of more dimensions than a kernel knows, up to PyTorch's 64, against the CPU."""

import pytest
import torch

N = 18
ORDER = [*range(0, N, 2), *range(1, N, 2)]  # in which no two dimensions can be merged
CALLS = {
    "clone": lambda x, i, m: x.permute(ORDER).contiguous(),
    "sum": lambda x, i, m: x.sum(dim=[0, 3]),
    "sum_every_other": lambda x, i, m: x.sum(dim=list(range(0, N, 2))),
    "sum_of_strided": lambda x, i, m: x.permute(ORDER).sum(dim=list(range(1, N, 3)), keepdim=True),
    "sum_all": lambda x, i, m: x.sum(),
    "mean": lambda x, i, m: x.mean((1, 5)),
    "prod": lambda x, i, m: x.prod(3),
    "amax": lambda x, i, m: x.amax((0, 2)),
    "max": lambda x, i, m: x.max(3),
    "argmax": lambda x, i, m: x.argmax(3),
    "any": lambda x, i, m: m.any(3),
    "all": lambda x, i, m: m.all(),
    "count": lambda x, i, m: m.count_nonzero((0, 3)),
    "var": lambda x, i, m: x.var((0, 2, 4)),
    "std": lambda x, i, m: torch.std_mean(x, 3),
    "norm": lambda x, i, m: x.norm(),
    "norm_dims": lambda x, i, m: torch.linalg.vector_norm(x, dim=(1, 4)),
    "logsumexp": lambda x, i, m: x.logsumexp((0, 3)),
    "softmax": lambda x, i, m: x.softmax(3),
    "log_softmax": lambda x, i, m: x.permute(ORDER).log_softmax(-1),
    "cumsum": lambda x, i, m: x.cumsum(4),
    "cummax": lambda x, i, m: x.cummax(4),
    "logcumsumexp": lambda x, i, m: x.permute(ORDER).logcumsumexp(4),
    "sort": lambda x, i, m: x.sort(4),
    "argsort": lambda x, i, m: x.permute(ORDER).argsort(4),
    "topk": lambda x, i, m: x.topk(1, 3),
    "median": lambda x, i, m: x.median(3),
    "kthvalue": lambda x, i, m: x.kthvalue(2, 3, keepdim=True),
    "cat": lambda x, i, m: torch.cat([x, x.permute(ORDER)], 5),
    "stack": lambda x, i, m: torch.stack([x, -x], 5),
    "roll": lambda x, i, m: x.roll((1, 1), (2, 5)),
    "flip": lambda x, i, m: x.flip(0, 3, 7),
    "flip_strided": lambda x, i, m: x.permute(ORDER).flip(0, 3, 7),
    "gather": lambda x, i, m: x.gather(3, i),
    "gather_part": lambda x, i, m: x.gather(3, i[:1, :, :1]),
    "scatter": lambda x, i, m: x.scatter(3, i * 0 + 1, 7.0),
    "scatter_tensor": lambda x, i, m: x.scatter(3, (i[:, :, :, :1] * 0 + 1), x),
    "scatter_part": lambda x, i, m: x.scatter(3, i[:1, :, :1, :1], -x),
    "scatter_add": lambda x, i, m: x.permute(ORDER).scatter_add(3, i, x),
    "scatter_reduce": lambda x, i, m: x.scatter_reduce(3, i, x, "amax"),
    "where": lambda x, i, m: torch.where(m, x, -x.permute(ORDER)),
    "masked_fill": lambda x, i, m: x.masked_fill(m, 0.5),
    "masked_select": lambda x, i, m: x.permute(ORDER)[m],
    "masked_scatter": lambda x, i, m: x.masked_scatter(m, -x),
    "nonzero": lambda x, i, m: m.nonzero(),
    "nonzero_static": lambda x, i, m: torch.nonzero_static(m, size=300_000, fill_value=-2),
    "nonzero_static_short": lambda x, i, m: torch.nonzero_static(m, size=7),
    "index": lambda x, i, m: x[:, one_zero(x)],
    "index_two": lambda x, i, m: x.permute(ORDER)[one_zero(x), :, one_zero(x)],
    "index_select": lambda x, i, m: x.index_select(4, torch.tensor([1, 0, 1], device=x.device)),
    "index_add": lambda x, i, m: x.index_add(2, one_zero(x), x.permute(ORDER)),
    "index_copy": lambda x, i, m: x.index_copy(2, one_zero(x), x.permute(ORDER)),
    "index_fill": lambda x, i, m: x.index_fill(2, one_zero(x)[:1], 2.0),
    "index_put": lambda x, i, m: x.clone().index_put_((one_zero(x),), x.permute(ORDER)),
    "take_along_dim": lambda x, i, m: x.take_along_dim(i, 3),
    "tril": lambda x, i, m: x.permute(ORDER).tril(),
    "pad": lambda x, i, m: torch.nn.functional.pad(x, (1, 1)),
    "repeat": lambda x, i, m: x.repeat([2] + [1] * (N - 1)),
    "repeat_interleave": lambda x, i, m: x.repeat_interleave(2, 3),
    "add": lambda x, i, m: x + 2 * x.permute(ORDER),
    "broadcast": lambda x, i, m: x * x[:, :1, :, :1],
    "gelu": lambda x, i, m: torch.nn.functional.gelu(x.permute(ORDER)),
    "half": lambda x, i, m: x.permute(ORDER).half(),
    "complex": lambda x, i, m: (torch.complex(x, x).permute(ORDER) * torch.complex(x, -x)).abs(),
    "matmul": lambda x, i, m: x @ x,
    "layer_norm": lambda x, i, m: torch.nn.functional.layer_norm(x, (2, 2)),
    "diff": lambda x, i, m: x.diff(dim=3),
    "fill_strided": lambda x, i, m: x.permute(ORDER)[1].clone().fill_(2),
    "in_place": lambda x, i, m: x.clone().permute(ORDER).mul_(x).add_(1),
    "equal": lambda x, i, m: torch.tensor(torch.equal(x.permute(ORDER), x)),
}  # fmt: skip


def one_zero(x):
    return torch.tensor([1, 0], device=x.device)


def arguments(n=N):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn([2] * n, generator=generator)
    return x, torch.randint(0, 2, [2] * n, generator=generator), x > 0.2


def same(actual, expected):
    if isinstance(expected, tuple):
        for a, e in zip(actual, expected):
            same(a, e)
        return
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_operators(name, device, no_fallback):
    host = arguments()
    here = [t.to(device) for t in host]
    actual = CALLS[name](*here)
    first = actual[0] if isinstance(actual, tuple) else actual
    assert first.device.type == ("cpu" if name == "equal" else "ocl")
    same(actual, CALLS[name](*host))


@pytest.mark.parametrize("dims", [17, 40, 64])
def test_dimensions_of_one_element(dims, device, no_fallback):
    sizes = [1] * (dims - 4) + [3, 1, 5, 2]
    x = torch.randn(sizes)
    y = x.to(device)
    for call in (lambda t: t + t, lambda t: t.sum(-2), lambda t: t.softmax(-2), lambda t: t.cumsum(-2),
                 lambda t: t.sort(-2).values, lambda t: torch.cat([t, t], -2), lambda t: t.norm(),
                 lambda t: t.flip(-2), lambda t: t.transpose(-1, -4).contiguous(), lambda t: t[t > 0]):  # fmt: skip
        same(call(y), call(x))


def test_gradients(device, no_fallback):
    x, _, _ = arguments()
    gradients = []
    for place in ("cpu", device):
        t = x.to(place).clone().requires_grad_()
        (t.softmax(3).cumsum(2) * t.permute(ORDER)).sum((0, 4)).norm().backward()
        gradients.append(t.grad)
    same(gradients[1], gradients[0])
