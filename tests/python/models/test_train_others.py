"""LSTM, GPT, UNet and GAN: the CPU's loss curve, no operator on the CPU; GPT also generates."""

import copy

import pytest
import torch

from benchmarks.models import OTHER_NETWORKS, without_dropout
from benchmarks.models.generative import GAN, gan_batch
from benchmarks.models.sequence import ALPHABET, GPT, text

STEPS = 20


def loss_curve(network, case, device):
    network = copy.deepcopy(network).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    losses = []
    for seed in range(STEPS):
        batch = [part.to(device) for part in case.batch(case.batch_size, case.small, seed)]
        optimizer.zero_grad()
        loss = case.loss(network, *batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return torch.tensor([loss.item() for loss in losses])


@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_loss_curve_follows_the_cpu(name, device, no_fallback):
    case = OTHER_NETWORKS[name]
    network = without_dropout(case.build()).train()
    expected = loss_curve(network, case, "cpu")
    actual = loss_curve(network, case, device)
    torch.testing.assert_close(actual, expected, rtol=0.02, atol=0.005)
    assert actual[-3:].mean() < actual[:3].mean()


@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_training_with_dropout_learns(name, device, no_fallback):
    case = OTHER_NETWORKS[name]
    losses = loss_curve(case.build().train(), case, device)
    assert losses.isfinite().all() and losses[-3:].mean() < losses[:3].mean()


def test_gan_follows_the_cpu(device, no_fallback):
    curves = {}
    for where in ("cpu", device):
        torch.manual_seed(5)
        gan = GAN(where)
        curves[where] = torch.tensor([gan.step(*gan_batch(16, seed)) for seed in range(STEPS)])
    torch.testing.assert_close(curves[device], curves["cpu"], rtol=0.02, atol=0.01)


def test_gpt_generates_what_the_cpu_generates(device, no_fallback):
    network = GPT().eval()
    start = text(2, 8, seed=1)[0]
    expected = network.generate(start, 24, temperature=0)
    actual = copy.deepcopy(network).to(device).generate(start.to(device), 24, temperature=0)
    assert torch.equal(actual.cpu(), expected)


def test_gpt_samples_repeatably(device, no_fallback):
    network = GPT().to(device).eval()
    start = text(2, 8, seed=1)[0].to(device)
    samples = []
    for _ in range(2):
        torch.manual_seed(11)
        samples.append(network.generate(start, 16, temperature=0.9, top=10).cpu())
    assert torch.equal(*samples)
    assert samples[0].max() < len(ALPHABET)


def test_moving_keeps_tied_weights_and_optimizer(device):
    network = GPT()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    network.to(device)
    assert network.head.weight is network.tokens.weight
    assert {id(parameter) for parameter in optimizer.param_groups[0]["params"]} == {
        id(parameter) for parameter in network.parameters()
    }
    before = network.head.weight.detach().cpu().clone()
    tokens, following = text(2, 16)
    OTHER_NETWORKS["gpt"].loss(network, tokens.to(device), following.to(device)).backward()
    optimizer.step()
    assert not torch.equal(network.head.weight.detach().cpu(), before)
