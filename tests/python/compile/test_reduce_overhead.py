"""mode="reduce-overhead": graphs are replayed, and no replay gives other numbers than a call."""

import copy
import gc
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F

from torch_ocl.inductor import capture

from .comparison import on, same

pytestmark = pytest.mark.feature("Inductor")


@pytest.fixture(autouse=True)
def _nothing_recorded():
    capture.warn_once.cache_clear()
    yield
    forget()
    assert not recordings(), "somebody holds a recording after the graph has gone"


def forget():
    for _ in range(3):  # graphs hold each other in circles
        torch._dynamo.reset()
        gc.collect()


def recordings():
    return list(capture._recordings)


def compiled(function, **options):
    return torch.compile(function, **(options or {"mode": "reduce-overhead"}))


@pytest.fixture
def captures():
    """Fails a test whose graphs were not all captured."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*skipping graph capture")
        yield
    assert recordings() and torch.ocl.fallbacks() == {}


def softmax_of_product(x, w):
    return torch.softmax((x @ w).relu() + 1, 1) * 2


@pytest.mark.parametrize("options", [{"mode": "reduce-overhead"}, {"options": {"triton.cudagraphs": True}}], ids=str)
def test_contents_that_change(device, captures, options):
    w = torch.randn(9, 5)
    f = compiled(softmax_of_product, **options)
    w_here = w.to(device)
    for _ in range(4):
        x = torch.randn(7, 9)
        same(f(x.to(device), w_here), softmax_of_product(x, w))
    (recording,) = recordings()
    assert len(recording._graph) >= 2 and not any(m.kept for m in recording.memory.values())


def test_outputs_that_live_on(device, captures):
    """Held outputs, views of them and what they were made into keep their numbers."""
    f = compiled(lambda x: (x * 2, (x + 1)[:, 2:], x.sum()))
    wanted, kept = [], []
    for i in range(6):
        x = torch.randn(6, 8)
        double, part, total = f(x.to(device))
        kept.append((double[1], part, total.view(1), double.detach() if i % 2 else None))
        wanted.append(((x * 2)[1], (x + 1)[:, 2:], x.sum().view(1), x * 2 if i % 2 else None))
    same(kept, wanted)
    assert len(recordings()) == 1


def test_a_loop_that_feeds_outputs_back(device, captures):
    step = lambda h, x: torch.tanh(h * 0.5 + x)
    f = compiled(step)
    h = here = torch.zeros(4, 5)
    here = here.to(device)
    for _ in range(6):
        x = torch.randn(4, 5)
        h, here = step(h, x), f(here, x.to(device))
        same(here, h)


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(4 * 36, 5))  # fmt: skip


@pytest.mark.parametrize("set_to_none", [True, False])
def test_training(device, captures, set_to_none):
    """Forward and backward pass, running statistics, gradients that are accumulated into, two forward passes before
    their backward passes."""
    torch.manual_seed(0)
    model = network()
    here = copy.deepcopy(model).to(device)
    run = compiled(here)
    optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in (model, here)]
    for i in range(7):
        losses = []
        batches = [(torch.randn(3, 2, 8, 8), torch.randint(5, (3,))) for _ in range(2 if i > 4 else 1)]
        for call, where, optimizer in ((model, "cpu", optimizers[0]), (run, device, optimizers[1])):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = [F.cross_entropy(call(x.to(where)), t.to(where)) for x, t in batches]
            for one in loss:
                one.backward()
            optimizer.step()
            losses.append([one.detach() for one in loss])
        same(losses[1], losses[0])
    same(list(here.parameters()), [p.detach() for p in model.parameters()])
    same(list(here.buffers()), list(model.buffers()))
    assert len(recordings()) == 2


def test_sizes_that_change(device, captures):
    w = torch.randn(9, 5)
    f, w_here = compiled(softmax_of_product), w.to(device)
    for rows in (3, 4, 5, 3, 4, 5, 5, 4, 3):
        x = torch.randn(rows, 9)
        same(f(x.to(device), w_here), softmax_of_product(x, w))
    assert {r.buffers[0].shape[0] for r in recordings()} >= {4, 5}


def test_mutation(device, captures):
    def f(x, y):
        x.mul_(2)
        return x + y

    g = compiled(f)
    x = torch.ones(5)
    x_here = x.to(device)
    for _ in range(5):
        y = torch.randn(5)
        same(g(x_here, y.to(device)), f(x, y))
        same(x_here, x)


def test_mutation_of_other_memory_at_every_call(device):
    def f(x):
        x.mul_(2)
        return x + 1

    g = compiled(f)
    all_of_them = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            x = torch.randn(5)
            all_of_them.append(x.to(device))  # none of them goes, so that no address comes back
            same(g(all_of_them[-1]), f(x))
            same(all_of_them[-1], x)
    assert len([w for w in caught if "skipping graph capture" in str(w.message)]) == 1


def test_random_numbers(device, captures):
    f = compiled(lambda x: (F.dropout(x, 0.5), torch.rand_like(x)))
    x = torch.ones(1000, device=device)
    torch.manual_seed(3)
    plain = torch.compile(lambda x: (F.dropout(x, 0.5), torch.rand_like(x)))
    expected = [[t.cpu() for t in plain(x)] for _ in range(4)]
    torch.manual_seed(3)
    for wanted in expected:
        same(f(x), wanted)
    assert not torch.equal(expected[2][1], expected[3][1])


def test_dropout_has_one_mask_in_both_passes(device, captures):
    f = compiled(lambda x: F.dropout(x * 3, 0.5))
    for _ in range(4):
        x = torch.ones(100, device=device, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach()) and 0 < (y == 0).sum() < 100


def test_parameters_that_move(device, captures):
    model = torch.nn.Linear(4, 3)
    here = copy.deepcopy(model).to(device)
    f = compiled(here)
    for i in range(8):
        with torch.no_grad():
            if i % 2:
                model.weight.mul_(-1.5)
                here.weight.data = model.weight.to(device)
            x = torch.randn(2, 4)
            same(f(x.to(device)), model(x))


def test_what_cannot_be_captured_is_called(device):
    """One warning says why, and the numbers are right."""

    def f(x):
        return torch.linalg.eigvals(x).abs().sum() * x

    g, x = compiled(f), torch.randn(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            torch.testing.assert_close(g(x.to(device)).cpu(), f(x), rtol=1e-4, atol=1e-4)
    assert len([w for w in caught if "skipping graph capture" in str(w.message)]) == 1


@torch._inductor.config.patch("graph_partition", False)
def test_scalars_of_the_host(device):
    """A kernel gets their number, which a replay would repeat."""
    f = lambda x, a: x * a + 1
    g = compiled(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for value in (2.0, 3.0, 4.0, 5.0):
            x, a = torch.randn(6), torch.tensor(value)
            same(g(x.to(device), a), f(x, a))
    assert len([w for w in caught if "skipping graph capture" in str(w.message)]) == 1


def test_layouts_of_inputs(device, captures):
    f = lambda a, b: (a + b).cos()
    g = compiled(f)
    for _ in range(4):
        a, b = torch.randn(6, 8), torch.randn(1, 3)
        same(g(a.to(device)[::2, 1:4], b.to(device)), f(a[::2, 1:4], b))
    h = compiled(lambda a: a.sin())
    for _ in range(3):
        row = torch.randn(1, 5)
        same(h(row.to(device).expand(4, 5)), row.expand(4, 5).sin())


def test_inside_of_a_capture_and_of_inference_mode(device, captures):
    f, x, w = compiled(softmax_of_product), torch.randn(7, 9), torch.randn(9, 5)
    for _ in range(3):
        with torch.inference_mode():
            same(f(*on(device, (x, w))), softmax_of_product(x, w))
    x_here, w_here = x.to(device), w.to(device)
    f(x_here, w_here), f(x_here, w_here)
    graph = torch.ocl.OclGraph()
    with torch.ocl.graph(graph):
        y = f(x_here, w_here)
    x_here.copy_(x * 2)
    graph.replay()
    same(y, softmax_of_product(x * 2, w))


def test_threads_and_streams(device, captures):
    f, w = compiled(softmax_of_product), torch.randn(9, 5)
    f(torch.randn(7, 9).to(device), w.to(device))
    problems = []

    def work():
        try:
            for _ in range(4):
                x = torch.randn(7, 9)
                with torch.ocl.stream(torch.ocl.Stream()):
                    same(f(x.to(device), w.to(device)), softmax_of_product(x, w))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    f(torch.randn(7, 9).to(device), w.to(device))
    assert not problems


def test_an_index_out_of_range(device, captures):
    f, table = compiled(lambda t, i: t[i] * 2), torch.arange(5.0)
    for i in ([1, 2], [0, 4], [3, 3]):
        same(f(table.to(device), torch.tensor(i, device=device)), table[i] * 2)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        f(table.to(device), torch.tensor([1, 7], device=device)).cpu()
    same(f(table.to(device), torch.tensor([1, 4], device=device)), table[[1, 4]] * 2)


def test_graphs_from_the_cache(device, captures):
    for _ in range(2):
        f, w = compiled(softmax_of_product), torch.randn(9, 5)
        for _ in range(3):
            x = torch.randn(7, 9)
            same(f(x.to(device), w.to(device)), softmax_of_product(x, w))
        assert len(recordings()) == 1
        del f
        forget()
    f = compiled(softmax_of_product)
    for _ in range(2):
        f(x.to(device), w.to(device))
