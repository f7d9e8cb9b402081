"""Python threads: training loops side by side are as correct as alone; current device and stream belong to the
thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

feature = pytest.mark.feature


def train(device, seed, stream=None):
    generator = torch.Generator().manual_seed(seed)
    with torch.ocl.stream(stream):
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.5)
        model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses = []
        for _ in range(15):
            x, y = (
                torch.rand(32, 16, generator=generator).to(device),
                torch.randint(4, (32,), generator=generator).to(device),
            )
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


@feature("Threads")
@pytest.mark.parametrize("own_streams", [False, True])
def test_training_loops_in_two_threads(device, own_streams):
    alone = [train(device, seed) for seed in (1, 2)]
    streams = [torch.ocl.Stream() if own_streams else None for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(train, [device] * 2, (1, 2), streams))
    for a, b in zip(alone, together, strict=True):
        assert b == pytest.approx(a, rel=1e-5) and b[-1] < b[0]


@feature("Threads")
def test_streams_belong_to_the_thread(device):
    seen = []
    with torch.ocl.Stream():
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.ocl.default_stream()]


@feature("Threads")
def test_building_programs_and_allocating_from_many_threads(device):
    def use(i):
        x = torch.full((100 + i,), i % 10 / 10, device=device)
        return (x.cosh().square() - x.sinh().square() + torch.ones(100 + i, device=device)).sum().item()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(200))) == pytest.approx([2 * (100 + i) for i in range(200)], rel=1e-5)
