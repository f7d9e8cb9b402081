"""LSTM, GRU and RNN modules and cells against the CPU, forward and backward."""

import copy

import pytest
import torch
from torch import nn

from conformance.tolerances import assert_close


def compare(module, device, *inputs):
    """Runs the module on both devices and compares outputs and all gradients."""
    mirror = copy.deepcopy(module).to(device)
    results = []
    for m, place in ((module, "cpu"), (mirror, device)):
        placed = [t.detach().to(place).requires_grad_() for t in inputs]
        arguments = placed[:1] + ([tuple(placed[1:])] if len(placed) > 2 else placed[1:])
        out = m(*arguments)
        flat = []
        for o in out if isinstance(out, tuple) else (out,):
            flat += list(o) if isinstance(o, tuple) else [o]
        weights = [torch.linspace(-1, 1, o.numel()).reshape(o.shape).to(place) for o in flat]
        sum((o * w).sum() for o, w in zip(flat, weights, strict=True)).backward()
        results.append([*flat, *(t.grad for t in placed), *(p.grad for p in m.parameters())])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str
)
def test_modules(device, kind, options, no_fallback):
    compare(kind(11, 19, **options), device, torch.randn(5, 3, 11))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_initial_state(device, kind, no_fallback):
    states = [torch.randn(1, 3, 19) for _ in range(2 if kind is nn.LSTM else 1)]
    compare(kind(11, 19), device, torch.randn(5, 3, 11), *states)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(device, kind, bias, no_fallback):
    states = [torch.randn(7, 61) for _ in range(2 if kind is nn.LSTMCell else 1)]
    compare(kind(13, 61, bias=bias), device, torch.randn(7, 13), *states)


def test_projection(device):
    compare(nn.LSTM(11, 19, proj_size=5), device, torch.randn(5, 3, 11))


def test_packed_sequence(device):
    module = nn.LSTM(7, 9, batch_first=True)
    mirror = copy.deepcopy(module).to(device)
    x, lengths = torch.randn(3, 6, 7), torch.tensor([6, 4, 1])
    pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
    expected, _ = unpack(module(pack(x, lengths, batch_first=True))[0], batch_first=True)
    actual, _ = unpack(mirror(pack(x.to(device), lengths, batch_first=True))[0], batch_first=True)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_bfloat16(device):
    module = nn.LSTM(16, 16)
    mirror = copy.deepcopy(module).to(device, torch.bfloat16)
    x = torch.randn(4, 2, 16)
    exact = module.double()(x.double())[0]  # of what the half type rounds: weights, the sequence and the states
    assert_close(mirror(x.to(device, torch.bfloat16))[0], exact, steps=2)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_second_derivatives_of_cells(kind, device):
    cell, x = kind(5, 6), torch.randn(3, 5)

    def second(cell, x):
        x = x.requires_grad_()
        result = cell(x)
        y = result[0] if kind is nn.LSTMCell else result
        (first,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, cell.weight_ih])

    expected = second(cell, x.clone())
    for actual, wanted in zip(second(copy.deepcopy(cell).to(device), x.to(device)), expected):
        assert actual.device.type == "ocl" and bool(wanted.any())
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sizes", [(2, 5), (2, 0), (3,), ()])
def test_gates_that_do_not_divide(sizes, device):
    """PyTorch's code for the CPU ends the process."""
    gates, state = torch.ones(sizes, device=device), torch.ones(2, 2, device=device)
    with pytest.raises((RuntimeError, IndexError)):
        torch.ops.aten._thnn_differentiable_gru_cell_backward(state, gates, gates, state, None, None)
    with pytest.raises((RuntimeError, IndexError)):
        torch.ops.aten._thnn_differentiable_lstm_cell_backward(state, state, gates, gates, None, None, state, state)
