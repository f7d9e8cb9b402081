"""Random numbers: distributions by their moments, dropout, seeds and states.

Numbers differ from the CPU's by design.
"""

import pytest
import torch

N = 100_003
pytestmark = pytest.mark.usefixtures("no_fallback")


def moments(x):
    x = x.cpu().double()
    return x.mean().item(), x.std().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_uniform(device, dtype):
    x = torch.empty(N, device=device, dtype=dtype).uniform_(-1, 3)
    mean, deviation = moments(x)
    assert abs(mean - 1) < 0.02 and abs(deviation - 4 / 12**0.5) < 0.02
    host = x.cpu()
    assert host.min() >= -1 and host.max() < 3
    assert torch.rand(5, 7, device=device).cpu().max() < 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_normal(device, dtype):
    mean, deviation = moments(torch.empty(N, device=device, dtype=dtype).normal_(2, 0.5))
    assert abs(mean - 2) < 0.02 and abs(deviation - 0.5) < 0.02
    mean, deviation = moments(torch.randn(N, device=device, dtype=dtype))
    assert abs(mean) < 0.02 and abs(deviation - 1) < 0.02


def test_other_distributions(device):
    def x():
        return torch.empty(N, device=device)

    mean, deviation = moments(x().exponential_(2))
    assert abs(mean - 0.5) < 0.02 and abs(deviation - 0.5) < 0.02
    assert abs(x().cauchy_(1, 2).cpu().median().item() - 1) < 0.05
    assert abs(x().log_normal_(0, 0.25).cpu().log().std().item() - 0.25) < 0.01
    assert abs(moments(x().geometric_(0.25))[0] - 4) < 0.1
    assert torch.empty(N, device=device, dtype=torch.int64).geometric_(0.25).cpu().min() == 1


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32, torch.bool]
)
def test_random_integers(device, dtype):
    low, high = (0, 2) if dtype == torch.bool else (3, 11)
    x = torch.empty(N, device=device, dtype=dtype).random_(low, high).cpu().to(torch.int64)
    assert x.unique().tolist() == list(range(low, high))
    x = torch.empty(N, device=device, dtype=dtype).random_().cpu().double()
    assert x.min() >= 0 and x.unique().numel() > 1


def test_randint_and_permutation(device):
    x = torch.randint(-5, 1 << 40, (N,), device=device).cpu()
    assert x.min() >= -5 and x.max() < 1 << 40 and x.max() > 1 << 39
    p = torch.randperm(1009, device=device)
    assert torch.equal(p.cpu().sort().values, torch.arange(1009))
    assert torch.randperm(0, device=device).numel() == 0
    assert torch.randperm(50, device=device, dtype=torch.int32).dtype == torch.int32


def test_bernoulli(device):
    assert abs(moments(torch.empty(N, device=device).bernoulli_(0.3))[0] - 0.3) < 0.01
    p = torch.tensor([0.0, 0.5, 1.0], device=device).expand(N // 3, 3)
    x = torch.bernoulli(p).cpu()
    assert x[:, 0].max() == 0 and x[:, 2].min() == 1 and abs(x[:, 1].mean() - 0.5) < 0.02
    mask = torch.empty(64, 33, device=device, dtype=torch.bool).bernoulli_(p[:1, :1] + 1)
    assert mask.cpu().all()


def test_samplers(device):
    rate = torch.full((N,), 7.0, device=device)
    assert abs(moments(torch.poisson(rate))[0] - 7) < 0.1
    k = torch.binomial(torch.full((N,), 30.0, device=device), torch.full((N,), 0.2, device=device))
    assert abs(moments(k)[0] - 6) < 0.1
    assert abs(moments(torch._standard_gamma(rate))[0] - 7) < 0.1


def test_dirichlet(device):
    d = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 5.0], device=device).repeat(1000, 1)).cpu()
    assert torch.allclose(d.sum(1), torch.ones(1000)) and abs(d[:, 2].mean() - 5 / 8) < 0.03


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(device, replacement):
    weights = torch.tensor([[0.0, 1, 3, 0, 4], [2, 0, 0, 2, 4]], device=device)
    drawn = torch.multinomial(weights.repeat(5000, 1), 2, replacement=replacement).cpu()
    assert set(drawn[0::2].unique().tolist()) == {1, 2, 4} and set(drawn[1::2].unique().tolist()) == {0, 3, 4}
    assert abs((drawn[0::2, 0] == 4).double().mean() - 0.5) < 0.03
    if not replacement:
        assert (drawn[:, 0] != drawn[:, 1]).all()


def test_seed_makes_numbers_repeat(device):
    torch.manual_seed(5)
    a = torch.randn(1000, device=device)
    b = torch.randn(1000, device=device)
    torch.manual_seed(5)
    assert torch.equal(a.cpu(), torch.randn(1000, device=device).cpu())
    assert not torch.equal(a.cpu(), b.cpu())
    generator = torch.Generator(device).manual_seed(5)
    assert torch.equal(a.cpu(), torch.randn(1000, device=device, generator=generator).cpu())


def test_strided_and_empty_results(device):
    x = torch.full((40, 50), -1.0, device=device)
    x[:, ::2].uniform_()
    host = x.cpu()
    assert (host[:, 1::2] == -1).all() and (host[:, ::2] >= 0).all()
    assert torch.empty(0, device=device).normal_().numel() == 0
    y = torch.empty(8, 3, 5, 7, device=device).to(memory_format=torch.channels_last).normal_()
    assert y.cpu().isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("channels_last", [False, True])
def test_dropout(device, dtype, channels_last):
    x = torch.ones(8, 16, 9, 11, device=device, dtype=dtype)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    y = torch.nn.functional.dropout(x, 0.25, training=True)
    y.backward(torch.ones(8, 16, 9, 11, device=device, dtype=dtype))
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    kept = y.detach().cpu().float()
    assert abs((kept != 0).float().mean() - 0.75) < 0.02
    assert torch.allclose(kept[kept != 0], torch.tensor(1 / 0.75), rtol=1e-2)
    assert torch.equal(torch.nn.functional.dropout(x, 0.25, training=False), x)
    assert not torch.nn.functional.dropout(x, 1.0, training=True).cpu().any()
