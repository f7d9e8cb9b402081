"""nn.LSTM and nn.GRU with whole layers in one kernel, against the CPU in float64 and against the same module made of
cells."""

import pytest
import torch
from torch import nn

from conformance.tolerances import assert_close
from tests.python.ops.kernels import kernels_of

CASES = [  # features, hidden, layers, options
    (5, 16, 1, {}),
    (8, 61, 2, {"batch_first": True}),
    (7, 130, 2, {"bidirectional": True, "bias": False}),
    (3, 1, 3, {"bidirectional": True, "batch_first": True}),
]


KINDS = [nn.LSTM, nn.GRU]


def states_of(result):
    """The last states of a module's result, of its one or two kinds."""
    return result[1] if isinstance(result[1], tuple) else (result[1],)


def run(module, sequence, states, weigh_states=True):
    """Outputs and all gradients."""
    leaves = [sequence, *states, *module.parameters()]
    for leaf in leaves:
        leaf.grad = None
        leaf.requires_grad_()
    result = module(sequence, states if len(states) > 1 else states[0])
    output, last = result[0], states_of(result)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape).to(output.device)
    loss = (output * weights).sum()
    if weigh_states:
        loss = loss + (last[0] * 0.5).sum() + (last[-1] * last[-1]).sum()
    loss.backward()
    return [value.detach().clone() for value in (output, *last, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("weigh_states", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("features", "hidden", "layers", "options"), CASES)
def test_layers(features, hidden, layers, options, kind, weigh_states, device, no_fallback):
    rows, steps = 6, 5
    module = kind(features, hidden, layers, **options).double()
    sequence = torch.randn(
        (rows, steps, features) if options.get("batch_first") else (steps, rows, features), dtype=torch.float64
    )
    count = layers * (2 if options.get("bidirectional") else 1)
    states = tuple(torch.randn(count, rows, hidden, dtype=torch.float64) for _ in range(2 if kind is nn.LSTM else 1))
    expected = run(module, sequence, states, weigh_states)
    inputs = (
        sequence.detach().to(device, torch.float32),
        tuple(state.detach().to(device, torch.float32) for state in states),
    )
    module = module.to(device, torch.float32)
    results = []
    names = kernels_of(lambda: results.extend(run(module, *inputs, weigh_states)))
    name = kind.__name__.lower()
    assert names is None or (f"{name}_sequence" in names and f"{name}_sequence_backward" in names)
    for actual, truth in zip(results, expected, strict=True):
        assert actual.device.type == device and actual.shape == truth.shape
        torch.testing.assert_close(actual.cpu().double(), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_are_the_composites(kind, device):
    module, sequence = kind(4, 8, batch_first=True).to(device), torch.randn(3, 5, 4, device=device)
    result = module(sequence)
    reference = module.double()(sequence.double())  # by cells
    for ours, composite in zip((result[0], *states_of(result)), (reference[0], *states_of(reference)), strict=True):
        assert ours.stride() == composite.stride()


def test_dropout_between_layers(device):
    module = nn.LSTM(4, 8, num_layers=2, dropout=1.0).to(device)
    sequence = torch.randn(5, 3, 4, device=device)
    first, _ = module(sequence)
    second, _ = module(sequence * 2)
    torch.testing.assert_close(first, second)  # nothing of the first layer's output reaches the second layer
    assert not torch.equal(module.eval()(sequence)[0], first)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_weights_and_no_gradient(kind, device):
    module, sequence = kind(4, 8).to(device), torch.randn(5, 3, 4, device=device)
    expected, _ = module(sequence)
    with torch.inference_mode():
        torch.testing.assert_close(module(sequence)[0].clone(), expected.detach())
    module.weight_hh_l0.requires_grad_(False)
    module(sequence)[0].sum().backward()
    assert module.weight_hh_l0.grad is None and module.weight_ih_l0.grad is not None and sequence.grad is None


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(kind, device):
    def second(module, sequence):
        result = module(sequence)
        (first,) = torch.autograd.grad(
            (result[0] ** 2).sum() + states_of(result)[-1].sum(), sequence, create_graph=True
        )
        return torch.autograd.grad((first**2).sum(), [sequence, *module.parameters()])

    module, sequence = kind(3, 5, bidirectional=True), torch.randn(4, 2, 3, requires_grad=True)
    expected = second(module, sequence)
    actual = second(module.to(device), sequence.detach().to(device).requires_grad_())
    for ours, truth in zip(actual, expected):
        torch.testing.assert_close(ours.cpu(), truth, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_take_the_cells(kind, device):
    module, sequence = kind(3, 5).to(device), torch.randn(4, 2, 3, device=device)

    def total(x):
        return module(x)[0].sum()

    (expected,) = torch.autograd.grad(total(sequence.requires_grad_()), sequence)
    sequence = sequence.detach()
    torch.testing.assert_close(torch.func.grad(total)(sequence), expected, rtol=1e-4, atol=1e-5)


def test_projections_autocast_and_packed_sequences(device):
    sequence = torch.randn(4, 2, 3, device=device)
    assert nn.LSTM(3, 8, proj_size=5).to(device)(sequence)[0].shape == (4, 2, 5)
    module = nn.LSTM(3, 8).to(device)
    with torch.autocast(device, torch.bfloat16):
        half = module(sequence)[0]
    assert_close(half, module(sequence)[0], steps=2)
    packed = nn.utils.rnn.pack_padded_sequence(sequence, [4, 2])
    output, _ = nn.utils.rnn.pad_packed_sequence(module(packed)[0])
    torch.testing.assert_close(output[:, 0], module(sequence)[0][:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_gets_the_cpus_error(kind, device):
    module = kind(3, 8)
    messages = []
    for where in ("cpu", device):
        with pytest.raises(RuntimeError) as error:
            states = tuple(torch.zeros(1, rows, 8, device=where) for rows in (3, 2))
            module.to(where)(torch.randn(4, 2, 3, device=where), states if kind is nn.LSTM else states[0])
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("mode", ["autocast", torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_computed_in_float32(kind, mode, device, no_fallback):
    """Under autocast and in a module of half precision layers are one kernel too; results have the half type, gradients
    their leaf's."""
    half = torch.bfloat16 if mode == "autocast" else mode
    leaf = torch.float32 if mode == "autocast" else mode
    module = kind(6, 16, 2, bidirectional=True).to(leaf)
    sequence = torch.randn(5, 3, 6).to(leaf)
    expected = kind(6, 16, 2, bidirectional=True).double()
    expected.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    truth = sequence.double().requires_grad_()
    expected(truth)[0].square().sum().backward()
    module, ours = module.to(device), sequence.to(device).requires_grad_()
    results = []
    with torch.autocast(device, dtype=half, enabled=mode == "autocast"):
        names = kernels_of(lambda: results.extend(module(ours)))
        assert torch.is_autocast_enabled(device) is (mode == "autocast")
    results[0].float().square().sum().backward()
    assert names is None or f"{kind.__name__.lower()}_sequence" in names
    assert results[0].dtype == half and all(state.dtype == half for state in states_of(results))
    # the weights, and under autocast the operands, are rounded to half
    assert_close(results[0], expected(truth)[0], steps=2)
    for actual, reference in zip((ours, *module.parameters()), (truth, *expected.parameters()), strict=True):
        assert actual.grad.dtype == leaf
        assert_close(actual.grad, reference.grad, half, steps=2)
