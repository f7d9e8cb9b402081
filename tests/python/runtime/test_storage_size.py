"""Storages that are smaller than a tensor needs: an error as PyTorch words it, whatever is done with the tensor."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

OUT_OF_BOUNDS = "out of bounds for storage of size"
pytestmark = pytest.mark.filterwarnings("ignore")


def to_nothing(shape, device, dtype=torch.float32):
    x = torch.ones(shape, device=device, dtype=dtype)
    x.untyped_storage().resize_(0)
    return x


def to_half(shape, device, dtype=torch.float32):
    x = torch.ones(shape, device=device, dtype=dtype)
    x.untyped_storage().resize_(x.nbytes // 2)
    return x


def offset_beyond(shape, device, dtype=torch.float32):
    """A view of the second half of a storage of which only the first is left."""
    count = torch.Size(shape).numel()
    x = torch.ones(2 * count, device=device, dtype=dtype)[count:].view(shape)
    x.untyped_storage().resize_(x.nbytes)
    return x


def transposed(shape, device, dtype=torch.float32):
    x = torch.ones(shape, device=device, dtype=dtype).transpose(0, -1).contiguous().transpose(0, -1)
    x.untyped_storage().resize_(x.nbytes // 2)
    return x


# Calls that need only the first elements, or elements of their own.
PARTS = {"out of a product", "linear", "cross_entropy", "embedding", "indices", "index", "index_put", "gather", "item",
         "bool", "add, number of no dimensions", "lists, a number of no dimensions", "one's own kernel",
         "scatter"}  # fmt: skip
KINDS = [to_nothing, to_half, offset_beyond, transposed]


def step(optimizer):
    """One step of parameters that are well with the gradient x, fused or by lists."""

    def call(x):
        p = nn.Parameter(torch.ones_like(x, memory_format=torch.contiguous_format))
        p.grad = x
        optimizer([p]).step()

    return call


def whole(x):
    return torch.ones(x.shape, device=x.device)


CALLS = {
    "add": lambda x: x + 1,
    "add, the other one": lambda x: whole(x) + x,
    "add, number of no dimensions": lambda x: whole(x) + to_nothing((), x.device),
    "in place": lambda x: x.add_(1),
    "in place, the other one": lambda x: whole(x).mul_(x),
    "out": lambda x: torch.exp(whole(x), out=x),
    "out of a product": lambda x: torch.mm(whole(x)[0], whole(x)[0], out=x[0]),
    "comparison": lambda x: x == 1,
    "where": lambda x: torch.where(whole(x) > 0, x, 0),
    "fill": lambda x: x.fill_(2),
    "zero": lambda x: x.zero_(),
    "random": lambda x: x.normal_(),
    "copy to the CPU": lambda x: x.cpu(),
    "copy from the CPU": lambda x: x.copy_(torch.ones(x.shape)),
    "copy from a CPU tensor without memory": lambda x: whole(x).copy_(to_nothing(x.shape, "cpu")),
    "copy to a CPU tensor without memory": lambda x: to_nothing(x.shape, "cpu").copy_(whole(x)),
    "cast": lambda x: x.half(),
    "clone": lambda x: x.clone(),
    "copy": lambda x: whole(x).copy_(x),
    "both sides": lambda x: x.copy_(to_nothing(x.shape, x.device)),
    "contiguous view": lambda x: x.transpose(1, 2).contiguous(),
    "reshape": lambda x: x.transpose(1, 2).reshape(-1),
    "item": lambda x: to_nothing((), x.device).item(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool(to_nothing((1,), x.device)),
    "print": str,
    "sum": lambda x: x.sum(),
    "sum over a dimension": lambda x: x.sum(1),
    "maximum": lambda x: x.max(),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(1),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(2),
    "unique": lambda x: x.unique(),
    "product": lambda x: x @ whole(x),
    "product, the other one": lambda x: whole(x) @ x,
    "linear": lambda x: F.linear(whole(x), x[0]),
    "convolution": lambda x: F.conv2d(x[None], torch.ones(2, 4, 3, 3, device=x.device)),
    "weights of a convolution": lambda x: F.conv1d(torch.ones(1, 4, 8, device=x.device), x),
    "pooling": lambda x: F.max_pool2d(x, 2),
    "interpolation": lambda x: F.interpolate(x, scale_factor=2),
    "padding": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "weights of layer_norm": lambda x: F.layer_norm(whole(x), x.shape, x),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(x, whole(x), whole(x)),
    "cross_entropy": lambda x: F.cross_entropy(x[0], torch.zeros(4, dtype=torch.int64, device=x.device)),
    "embedding": lambda x: F.embedding(torch.zeros(2, dtype=torch.int64, device=x.device), x[0]),
    "index": lambda x: x[torch.tensor([0, 1], device=x.device)],
    "indices": lambda x: whole(x)[to_nothing((2,), x.device, torch.int64)],
    "index_put": lambda x: x.index_put_((torch.tensor([0], device=x.device),), whole(x)[:1]),
    "gather": lambda x: x.gather(0, torch.zeros(1, 4, 4, dtype=torch.int64, device=x.device)),
    "scatter": lambda x: x.scatter_(0, torch.zeros(1, 4, 4, dtype=torch.int64, device=x.device), 1.0),
    "cat": lambda x: torch.cat([whole(x), x]),
    "stack": lambda x: torch.stack([whole(x), x]),
    "fft": torch.fft.rfft,
    "cholesky": torch.linalg.cholesky,
    "lu": torch.linalg.lu_factor,
    "solve": lambda x: torch.linalg.solve(torch.eye(4, device=x.device).expand(4, 4, 4), x),
    "an operator on the CPU": torch.linalg.svd,
    "lists": lambda x: torch._foreach_add([whole(x), x], 1),
    "lists in place": lambda x: torch._foreach_mul_([whole(x), whole(x)], [whole(x), x]),
    "lists, a number of no dimensions": lambda x: torch._foreach_mul([whole(x)], to_nothing((), x.device)),
    "norms of lists": lambda x: torch._foreach_norm([whole(x), x]),
    "SGD, fused": step(lambda p: torch.optim.SGD(p, 0.1, fused=True)),
    "Adam, fused": step(lambda p: torch.optim.Adam(p, 0.1, fused=True)),
    "Adam, lists": step(lambda p: torch.optim.Adam(p, 0.1, foreach=True)),
    "clip_grad_norm_": step(lambda p: nn.utils.clip_grad_norm_(p, 1.0) and torch.optim.SGD(p, 0.1)),
    "LSTM": lambda x: nn.LSTM(4, 5).to(x.device)(x),
    "gradients": lambda x: (whole(x).requires_grad_() * x).sum().backward(),
    "unfinished work": lambda x: (whole(x) * 2 + x).relu_().sum().item(),
    "one's own kernel": lambda x: torch.ocl.compile_kernel(
        "__kernel void one(__global float* x) { x[get_global_id(0)] = 1; }"
    )(x, global_size=x.numel()),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_use_is_refused(name, device):
    for kind in KINDS[:1] if name in PARTS else KINDS:
        x = kind((4, 4, 4), device)
        with pytest.raises((RuntimeError, ValueError), match=OUT_OF_BOUNDS):
            CALLS[name](x)
            torch.ocl.synchronize()


def test_the_text_is_pytorchs(device):
    x = torch.ones(4, device=device)
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError) as raised:
        x + 1
    with pytest.raises(RuntimeError) as expected:
        torch.ones(2).as_strided((4,), (1,))
    assert str(raised.value) == str(expected.value)
    assert (x[:2] + 1).tolist() == [2, 2]


def test_tensors_without_elements_need_no_storage(device, no_fallback):
    x = torch.ones(4, device=device)[4:]
    x.untyped_storage().resize_(0)
    assert (x + 1).shape == (0,) and x.sum().item() == 0 and x.cpu().tolist() == [] and x.clone().numel() == 0


def test_resized_back(device, no_fallback):
    """As FSDP does with its parameters."""
    x = torch.arange(6.0, device=device).view(2, 3)
    y, storage = x.t(), x.untyped_storage()
    for size in (0, 8, 24, 4000):
        storage.resize_(size)
        assert storage.nbytes() == size
    x.copy_(torch.arange(6.0).view(2, 3))
    assert y.sum(1).tolist() == [3, 5, 7] and (y @ x).device.type == "ocl"
    storage.resize_(24)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_nothing_is_written(device):
    """Neither through the tensor that is refused nor to the results beside it."""
    good, bad = torch.ones(4, device=device), to_half((4,), device)
    bad[:2].fill_(5)
    with pytest.raises(RuntimeError, match=OUT_OF_BOUNDS):
        torch._foreach_add_([good, bad], 1)
    with pytest.raises(RuntimeError, match=OUT_OF_BOUNDS):
        torch.add(good, good, out=bad)
    assert good.tolist() == [1, 1, 1, 1] and bad[:2].tolist() == [5, 5]


def test_a_graph_whose_memory_is_gone(device):
    """Its replays work on memory that is nobody's promise, but that is there."""
    big = torch.ones(3_000_000, device=device)  # a segment of its own
    y = torch.zeros(3_000_000, device=device)
    graph = torch.ocl.OclGraph()
    with torch.ocl.graph(graph):
        y.copy_(big)
        torch._foreach_add_([y], [big])
        y.fill_(2)
    graph.replay()
    reserved = torch.ocl.memory_reserved()
    for x in (big, y):
        x.untyped_storage().resize_(0)
    torch.ocl.empty_cache()
    graph.replay()
    torch.ocl.synchronize()
    with pytest.raises(RuntimeError, match=OUT_OF_BOUNDS):
        y + 1
    assert torch.ocl.memory_reserved() >= 24_000_000
    graph.reset()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() <= reserved - 24_000_000


def test_compiled_code(device):
    f = torch.compile(lambda x: torch.sin(x) + 1)
    f(torch.ones(4, device=device))
    with pytest.raises(RuntimeError, match=OUT_OF_BOUNDS):
        f(to_half((4,), device))
