"""Graphs: captured work is replayed on new contents, with gradients, random numbers and memory of its own."""

import contextlib
import time

import pytest
import torch
from torch import nn

from conftest import without_fallback

feature = pytest.mark.feature
EPSILON = torch.finfo(torch.float32).eps


def close(got, expected, terms):
    """Equal to the rounding of sums of so many terms."""
    assert got.device.type == "ocl"
    bound = 8 * EPSILON * terms**0.5
    torch.testing.assert_close(got.cpu(), expected.cpu(), rtol=bound, atol=bound)


def captured(body, **options):
    graph = torch.ocl.OclGraph()
    with torch.ocl.graph(graph, **options):
        result = body()
    return graph, result


@feature("Graph capture")
def test_a_replay_works_on_new_contents(device, no_fallback):
    x = torch.zeros(37, 19, device=device)
    w = torch.randn(19, 23, device=device)
    graph, y = captured(lambda: torch.softmax((x @ w).relu() + 1, dim=1))
    assert y.device.type == "ocl" and len(graph) >= 2
    for seed in range(3):
        torch.manual_seed(seed)
        new = torch.randn(37, 19)
        x.copy_(new)
        graph.replay()
        close(y, torch.softmax((new @ w.cpu()).relu() + 1, dim=1), 19 + 23)


def network(device, *, dropout=0.0):
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(6 * 49, 10),
    ).to(device)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=0.01, capturable=True, fused=True),
    "sgd, not foreach": lambda p: torch.optim.SGD(p, lr=0.05, foreach=False),
}


def train(net, optimizer, x, target):
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(net(x), target)
    loss.backward()
    optimizer.step()
    return loss


@feature("Graph capture")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_whole_training_step(device, name, no_fallback):
    """As PyTorch's documentation of CUDA graphs does it: warm up on a side stream, capture, fill and replay."""
    batches = [(torch.randn(5, 3, 7, 7), torch.randint(10, (5,))) for _ in range(4)]
    nets = network(device), network(device)
    optimizers = [OPTIMIZERS[name](net.parameters()) for net in nets]
    eager = [train(nets[0], optimizers[0], x.to(device), t.to(device)).item() for x, t in [batches[0]] * 3 + batches]

    x, target = (t.to(device) for t in batches[0])
    side = torch.ocl.Stream()
    side.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(side):
        for _ in range(3):
            train(nets[1], optimizers[1], x, target)
    torch.ocl.current_stream().wait_stream(side)
    graph, loss = captured(lambda: train(nets[1], optimizers[1], x, target))
    losses = []
    for new, new_target in batches:
        x.copy_(new)
        target.copy_(new_target)
        graph.replay()
        losses.append(loss.item())
    assert losses == pytest.approx(eager[3:], rel=1e-4)
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)  # Adam divides by roots of small squares
    assert nets[0][1].num_batches_tracked.item() == nets[1][1].num_batches_tracked.item() == 7


@feature("Graph capture")
def test_random_numbers_advance_with_every_replay(device, no_fallback):
    x = torch.ones(1000, device=device)

    def body():
        return nn.functional.dropout(x, 0.3), torch.rand(50, device=device), torch.randn_like(x)

    torch.ocl.manual_seed(5)
    expected = [body() for _ in range(3)]
    state = torch.ocl.get_rng_state()
    torch.ocl.manual_seed(5)
    graph, results = captured(body)
    for values in expected:
        graph.replay()
        for got, value in zip(results, values, strict=True):
            assert torch.equal(got, value)
    assert torch.equal(torch.ocl.get_rng_state(), state)  # a graph uses as many numbers as its operators
    torch.ocl.manual_seed(5)  # counts, though it is behind the capture
    graph.replay()
    assert torch.equal(results[1], expected[0][1])


@feature("Graph capture")
def test_generators_of_the_user_advance_too(device):
    generator = torch.Generator(device=device).manual_seed(8)
    expected = [torch.rand(9, device=device, generator=generator) for _ in range(2)]
    generator.manual_seed(8)
    graph, y = captured(lambda: torch.rand(9, device=device, generator=generator))
    for value in expected:
        graph.replay()
        assert torch.equal(y, value)


@feature("Graph capture")
def test_attention_with_dropout_has_one_mask_in_both_passes(device, no_fallback):
    """The gradient of the values under ones is the sum of the dropped-out weights, which the output shows too."""
    q, k = (torch.randn(1, 2, 33, 16, device=device) for _ in range(2))
    v = torch.ones(1, 2, 33, 16, device=device, requires_grad=True)

    def body():
        out = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        return out, torch.autograd.grad(out, v, torch.ones_like(out))[0]

    body()
    graph, (out, grad) = captured(body)
    sums = []
    for _ in range(3):
        graph.replay()
        close(grad.sum(), out.sum(), 2 * 33 * 16)
        sums.append(out.sum().item())
    assert len(set(sums)) == 3


def to_itself(x):
    host = torch.zeros(5000)
    x.copy_(host)


REFUSED = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "bool": lambda x: bool((x > 0).all()),
    "nonzero": lambda x: x.nonzero(),
    "synchronize": lambda x: torch.ocl.synchronize(),
    "stream": lambda x: torch.ocl.current_stream().synchronize(),
    "query": lambda x: torch.ocl.current_stream().query(),
    "a large copy": to_itself,
    "randperm": lambda x: torch.randperm(10, device=x.device),
    "an operator of the CPU": lambda x: torch.linalg.eig(x.view(50, 100)[:, :50]),
}


@feature("Graph capture")
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:The operator")
def test_what_cannot_be_captured_is_an_error(device, name):
    x = torch.ones(5000, device=device)
    graph = torch.ocl.OclGraph()
    message = "operation not permitted when stream is capturing"
    with pytest.raises(RuntimeError, match=message), torch.ocl.graph(graph):
        x.add_(1)
        REFUSED[name](x)
    assert not torch.ocl.is_current_stream_capturing() and bool((x == 1).all())
    with torch.ocl.graph(graph):  # can be used again
        x.add_(1)
    graph.replay()
    assert bool((x == 2).all())


@feature("Graph capture")
def test_a_refusal_that_was_swallowed_invalidates_the_capture(device):
    x = torch.ones(3, device=device)
    graph = torch.ocl.OclGraph()
    message = "capture of the graph failed and holds nothing"
    with pytest.raises(RuntimeError, match=message), torch.ocl.graph(graph), contextlib.suppress(RuntimeError):
        x.sum().item()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@feature("Graph capture")
def test_wrong_use_of_graphs(device):
    x = torch.ones(3, device=device)
    graph = torch.ocl.OclGraph()
    for call in (graph.replay, graph.pool, graph.instantiate):
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            call()
    with pytest.raises(RuntimeError, match="without a capture in progress"):
        graph.capture_end()
    with pytest.raises(ZeroDivisionError), torch.ocl.graph(graph):
        x.add_(1)
        1 / 0  # noqa: B018
    with torch.ocl.graph(graph):
        assert torch.ocl.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="captures a graph already"):
            torch.ocl.OclGraph().capture_begin()
        x.add_(1)
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        torch.ocl.OclGraph().capture_begin(capture_error_mode="x")
    graph.replay()
    assert x.tolist() == [2, 2, 2]
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@feature("Graph capture")
def test_side_streams_join_the_capture(device, no_fallback):
    x = torch.zeros(64, 64, device=device)
    side = torch.ocl.Stream()

    def body():
        a = x + 1
        side.wait_stream(torch.ocl.current_stream())
        with torch.ocl.stream(side):
            assert torch.ocl.is_current_stream_capturing()
            b = a * 3
            b.record_stream(torch.ocl.current_stream())
        c = a * 5
        torch.ocl.current_stream().wait_stream(side)
        return b + c

    graph, y = captured(body)
    with torch.ocl.stream(side):
        assert not torch.ocl.is_current_stream_capturing()
    for value in (0, 4):
        x.fill_(value)
        graph.replay()
        assert bool((y == 8 * (value + 1)).all())


@feature("Graph capture")
def test_pinned_memory_is_looked_at_by_every_replay(device):
    source, result = torch.zeros(1000).pin_memory(), torch.zeros(1000).pin_memory()
    x = torch.zeros(1000, device=device)

    def body():
        x.copy_(source, non_blocking=True)
        x.mul_(2)
        result.copy_(x, non_blocking=True)

    graph, _ = captured(body)
    for value in (3.0, 4.0):
        source.fill_(value)
        graph.replay()
        torch.ocl.synchronize()
        assert bool((result == 2 * value).all())


@feature("Graph capture")
def test_an_index_out_of_range_is_reported_after_the_replay(device):
    table, index = torch.arange(5.0, device=device), torch.zeros(2, dtype=torch.long, device=device)
    graph, y = captured(lambda: table.index_select(0, index))
    graph.replay()
    torch.ocl.synchronize()
    assert y.tolist() == [0, 0]
    for _ in range(2):
        index.fill_(7)
        graph.replay()
        with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
            torch.ocl.synchronize()
    index.fill_(3)
    graph.replay()
    assert y.tolist() == [3, 3]


@feature("Graph capture")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_graphed_callables(device, dropout, no_fallback):
    plain, graphed = network(device, dropout=dropout), network(device, dropout=dropout)
    sample = torch.randn(5, 3, 7, 7, device=device, requires_grad=True)
    buffers = {name: value.clone() for name, value in graphed.named_buffers()}
    assert torch.ocl.make_graphed_callables(graphed, (sample,)) is graphed
    graphed.load_state_dict(plain.state_dict() | buffers)
    for seed in range(2):
        x = torch.randn(5, 3, 7, 7, device=device)
        results = []
        for net in (plain, graphed):
            own = x.clone().requires_grad_()
            torch.ocl.manual_seed(seed)
            net.zero_grad(set_to_none=True)
            loss = net(own).square().mean()
            loss.backward()
            results.append([loss.detach().clone(), own.grad, *(p.grad for p in net.parameters())])
        for a, b in zip(*results, strict=True):
            close(b, a, 5 * 49)
    plain.eval(), graphed.eval()
    with torch.no_grad():
        close(graphed(x), plain(x), 6 * 49)  # another mode than the capture's: without a graph


@feature("Graph capture")
def test_graphed_callables_in_a_row(device):
    first, second = nn.Linear(8, 8).to(device), nn.Linear(8, 4).to(device)
    x = torch.randn(6, 8, device=device)
    hidden = torch.randn(6, 8, device=device, requires_grad=True)
    y = second(torch.tanh(first(x)))
    y.sum().backward()
    y = y.detach()  # PyTorch refuses captures while an older graph of the same parameters is there
    expected = [p.grad.clone() for p in (*first.parameters(), *second.parameters())]
    for p in (*first.parameters(), *second.parameters()):
        p.grad = None
    a, f, b = torch.ocl.make_graphed_callables((first, torch.tanh, second), ((x,), (hidden,), (hidden,)))
    got = b(f(a(x)))
    close(got, y, 16)
    got.sum().backward()
    for p, grad in zip((*first.parameters(), *second.parameters()), expected, strict=True):
        close(p.grad, grad, 48)
    with pytest.raises(TypeError, match="only tensors"):
        torch.ocl.make_graphed_callables(torch.add, (x, 1))
    hooked = nn.Linear(8, 8).to(device)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        torch.ocl.make_graphed_callables(hooked, (x,))


@feature("Graph capture")
@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="is of torch 2.13 and later")
def test_the_graphs_of_torch_accelerator(device, tmp_path):
    x = torch.ones(40, device=device)
    stream, graph = torch.Stream(device), torch.accelerator.Graph()
    with stream, graph:
        y = x * 2
        z = y + 1
    x.fill_(5)
    graph.replay()
    torch.accelerator.synchronize()
    assert bool((z == 11).all())
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert len((tmp_path / "graph.txt").read_text().splitlines()) == 2
    sharing = torch.accelerator.Graph(pool=graph.pool())
    with stream, sharing:
        x + 1
    assert tuple(sharing.pool()) == tuple(graph.pool())
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@feature("Graph capture")
def test_replays_are_quick(device, record_property):
    """Prints what a kernel of a replay costs. Asserts only that all of them ran."""
    x = torch.zeros(16, device=device)

    def body():
        for _ in range(100):
            x.add_(1)
            x.sub_(0)

    with without_fallback():
        graph, _ = captured(body)
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        graph.replay()
        torch.ocl.synchronize()
        times.append(time.perf_counter() - begin)
    microseconds = min(times) / len(graph) * 1e6
    record_property("microseconds_per_kernel", microseconds)
    print(f"\n{microseconds:.2f} us for each of {len(graph)} kernels of a replay")
    assert bool((x == 50 * 100).all())
