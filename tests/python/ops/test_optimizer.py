"""torch.optim on the device against the CPU: default (foreach), single-tensor and fused forms."""

import pytest
import torch
from torch import nn, optim

CASES = {
    "sgd": (optim.SGD, {"lr": 0.1}),
    "sgd_momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd_dampening": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    "sgd_nesterov": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adam_amsgrad": (optim.Adam, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "adamw": (optim.AdamW, {"lr": 0.01}),
    "adamw_amsgrad": (optim.AdamW, {"lr": 0.01, "amsgrad": True}),
    "adagrad": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.05}),
    "rmsprop": (optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    "adamax": (optim.Adamax, {"lr": 0.01}),
    "nadam": (optim.NAdam, {"lr": 0.01}),
    "radam": (optim.RAdam, {"lr": 0.01}),
    "adadelta": (optim.Adadelta, {"lr": 0.5}),
    "asgd": (optim.ASGD, {"lr": 0.1}),
}
FUSED = [name for name in CASES if name.startswith(("sgd", "adam", "adagrad")) and name != "adamax"]


def network():
    return nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Flatten(), nn.Linear(7 * 9, 130), nn.Linear(130, 11))


def run(device, cls, options, steps=4):
    torch.manual_seed(0)
    reference = network()
    model = network()
    model.load_state_dict(reference.state_dict())
    model.to(device)
    plain = {k: v for k, v in options.items() if k not in ("fused", "foreach", "capturable")}
    if isinstance(plain.get("lr"), torch.Tensor):
        plain["lr"] = plain["lr"].item()
    optimizers = cls(reference.parameters(), foreach=False, **plain), cls(model.parameters(), **options)
    for _ in range(steps):
        for p, q in zip(reference.parameters(), model.parameters(), strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.to(device)
        for o in optimizers:
            o.step()
    for p, q in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(q.detach().cpu(), p.detach(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("foreach", [None, False])
def test_against_cpu(device, name, foreach, no_fallback):
    cls, options = CASES[name]
    run(device, cls, {**options, "foreach": foreach})


@pytest.mark.parametrize("name", FUSED)
def test_fused(device, name, no_fallback):
    cls, options = CASES[name]
    run(device, cls, {**options, "fused": True})


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.AdamW])
@pytest.mark.parametrize("place", ["cpu", "device"])
def test_fused_with_learning_rate_in_a_tensor(device, cls, place):
    lr = torch.tensor(0.03, device=device if place == "device" else "cpu")
    run(device, cls, {"lr": lr, "fused": True})


def test_capturable(device):
    run(device, optim.Adam, {"lr": 0.01, "capturable": True})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(device, dtype):
    p = torch.ones(1000, dtype=dtype)
    q = p.to(device)
    grad = torch.linspace(-1, 1, 1000).to(dtype)
    for t, g, options in ((p, grad, {}), (q, grad.to(device), {"fused": True})):
        t.requires_grad_().grad = g
        optim.SGD([t], lr=0.5, momentum=0.9, **options).step()
    torch.testing.assert_close(q.detach().cpu(), p.detach())


def test_fused_step_skips_when_infinities_were_found(device):
    model = nn.Linear(5, 3).to(device)
    before = [p.detach().cpu().clone() for p in model.parameters()]
    optimizer = optim.AdamW(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler(device, init_scale=8.0)
    scaler.scale(model(torch.full((2, 5), float("inf"), device=device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0
    for p, b in zip(model.parameters(), before, strict=True):
        assert torch.equal(p.detach().cpu(), b)


def test_fused_with_grad_scaler_matches_plain(device):
    models = [nn.Linear(5, 3).to(device) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(7, 5).to(device)
    optimizers = [optim.Adam(m.parameters(), lr=0.1, fused=True) for m in models]
    scaler = torch.amp.GradScaler(device, init_scale=64.0)
    for _ in range(3):
        for o in optimizers:
            o.zero_grad()
        models[0](x).square().mean().backward()
        optimizers[0].step()
        scaler.scale(models[1](x).square().mean()).backward()
        scaler.step(optimizers[1])
        scaler.update()
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_gradient_of_another_layout(device):
    p = torch.randn(4, 3, 5, 5).to(device).requires_grad_()
    p.grad = torch.ones(4, 3, 5, 5, device=device).to(memory_format=torch.channels_last)
    expected = p.detach().cpu() - 0.5
    optim.SGD([p], lr=0.5, fused=True).step()
    torch.testing.assert_close(p.detach().cpu(), expected)
