"""RNN, GRU and LSTM."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import row

Activation = Callable[[Tensor, float | None, float | None], Tensor]

_ACTIVATIONS: dict[str, Activation] = {
    "affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "hardsigmoid": lambda x, a, b: torch.clamp((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1),
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "relu": lambda x, a, b: F.relu(x),
    "scaledtanh": lambda x, a, b: (1.0 if a is None else a) * torch.tanh((1.0 if b is None else b) * x),
    "sigmoid": lambda x, a, b: torch.sigmoid(x),
    "softplus": lambda x, a, b: F.softplus(x),
    "softsign": lambda x, a, b: F.softsign(x),
    "tanh": lambda x, a, b: torch.tanh(x),
    "thresholdedrelu": lambda x, a, b: F.threshold(x, 1.0 if a is None else a, 0.0),
}


def _activations(
    names: list[str] | None, defaults: list[str], directions: int, alphas: Any, betas: Any, clip: float | None
) -> list[list[Callable[[Tensor], Tensor]]]:
    """For each direction its activation functions, each behind the clip of its argument."""
    names = list(names) if names else defaults * directions
    if len(names) != len(defaults) * directions:
        raise ValueError(f"{len(names)} activations, {len(defaults) * directions} are needed")
    functions = []
    for index, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            raise ValueError(f"unknown activation '{name}'")
        alpha = alphas[index] if alphas and index < len(alphas) else None
        beta = betas[index] if betas and index < len(betas) else None
        functions.append(_bound(_ACTIVATIONS[name.lower()], alpha, beta, clip))
    return [functions[i : i + len(defaults)] for i in range(0, len(functions), len(defaults))]


def _bound(
    function: Activation, alpha: float | None, beta: float | None, clip: float | None
) -> Callable[[Tensor], Tensor]:
    if clip is None:
        return lambda x: function(x, alpha, beta)
    return lambda x: function(torch.clamp(x, -clip, clip), alpha, beta)


Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _run(
    gates: Tensor, states: tuple[Tensor, ...], step: Step, reverse: bool, lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Steps over the first axis; the first state is the output. Beyond its length a batch gives 0."""
    count = gates.shape[0]
    outputs: list[Tensor] = []
    for place in reversed(range(count)) if reverse else range(count):
        new = step(gates[place], states)
        if lengths is None:
            states = new
            outputs.append(new[0])
        else:
            alive = (place < lengths).reshape(-1, 1)
            states = tuple(torch.where(alive, after, before) for after, before in zip(new, states))
            outputs.append(torch.where(alive, new[0], torch.zeros_like(new[0])))
    if reverse:
        outputs.reverse()
    return torch.stack(outputs), states


class _Inputs:
    """What the three operators have in common."""

    def __init__(self, x: Tensor, w: Tensor, lengths: Tensor | None, direction: str, layout: int, gates: int) -> None:
        if direction not in ("forward", "reverse", "bidirectional"):
            raise ValueError(f"direction is '{direction}'")
        self.x = x.transpose(0, 1) if layout else x
        if self.x.shape[-1] != w.shape[-1]:
            raise ValueError(f"the input has {self.x.shape[-1]} features, the weight takes {w.shape[-1]}")
        self.reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.layout, self.directions = layout, len(self.reverse)
        self.hidden = w.shape[1] // gates
        self.lengths = lengths

    def state(self, given: Tensor | None, direction: int) -> Tensor:
        """The first state of a direction, [batch, hidden]."""
        if given is None:
            return torch.zeros((self.x.shape[1], self.hidden), dtype=self.x.dtype, device=self.x.device)
        return given[:, direction] if self.layout else given[direction]

    def results(self, sequences: list[Tensor], *last: list[Tensor]) -> tuple[Tensor, ...]:
        """Y and the last states in the order of axes that `layout` asks for."""
        y = torch.stack(sequences, 1)
        finals = [torch.stack(states, 1 if self.layout else 0) for states in last]
        return (y.permute(2, 0, 1, 3) if self.layout else y, *finals)


def _biases(b: Tensor | None, direction: int, width: int) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if b is None else (b[direction, :width], b[direction, width:])


@row("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
    outputs: int = 1,
) -> Any:
    """h = f(W x + R h + biases)."""
    net = _Inputs(x, w, lengths, direction, layout, 1)
    functions = _activations(activations, ["Tanh"], net.directions, activation_alpha, activation_beta, clip)
    sequences, last = [], []
    for index, reverse in enumerate(net.reverse):
        wb, rb = _biases(b, index, net.hidden)
        (f,) = functions[index]

        def step(
            gate: Tensor, states: tuple[Tensor, ...], f: Any = f, r: Tensor = r[index], rb: Any = rb
        ) -> tuple[Tensor, ...]:
            return (f(gate + F.linear(states[0], r, rb)),)

        y, states = _run(F.linear(net.x, w[index], wb), (net.state(initial, index),), step, reverse, lengths)
        sequences.append(y)
        last.append(states[0])
    return _shown(net.results(sequences, last), outputs)


def _shown(results: tuple[Tensor, ...], outputs: int) -> Any:
    return results[:outputs] if outputs > 1 else results[0]


@row("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
    outputs: int = 1,
) -> Any:
    """Gates z, r, h; linear_before_reset is what PyTorch and cuDNN compute."""
    net = _Inputs(x, w, lengths, direction, layout, 3)
    functions = _activations(activations, ["Sigmoid", "Tanh"], net.directions, activation_alpha, activation_beta, clip)
    size = net.hidden
    sequences, last = [], []
    for index, reverse in enumerate(net.reverse):
        wb, rb = _biases(b, index, 3 * size)
        f, g = functions[index]

        def step(
            gate: Tensor, states: tuple[Tensor, ...], f: Any = f, g: Any = g, r: Tensor = r[index], rb: Any = rb
        ) -> tuple[Tensor, ...]:
            h = states[0]
            if linear_before_reset:
                hidden = F.linear(h, r, rb)
                z = f(gate[:, :size] + hidden[:, :size])
                reset = f(gate[:, size : 2 * size] + hidden[:, size : 2 * size])
                new = g(gate[:, 2 * size :] + reset * hidden[:, 2 * size :])
            else:
                hidden = F.linear(h, r[: 2 * size], None if rb is None else rb[: 2 * size])
                z, reset = f(gate[:, :size] + hidden[:, :size]), f(gate[:, size : 2 * size] + hidden[:, size:])
                new = g(
                    gate[:, 2 * size :] + F.linear(reset * h, r[2 * size :], None if rb is None else rb[2 * size :])
                )
            return ((1 - z) * new + z * h,)

        y, states = _run(F.linear(net.x, w[index], wb), (net.state(initial, index),), step, reverse, lengths)
        sequences.append(y)
        last.append(states[0])
    return _shown(net.results(sequences, last), outputs)


@row("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
    outputs: int = 1,
) -> Any:
    """Gates i, o, f, c, with peepholes i, o, f."""
    net = _Inputs(x, w, lengths, direction, layout, 4)
    functions = _activations(
        activations, ["Sigmoid", "Tanh", "Tanh"], net.directions, activation_alpha, activation_beta, clip
    )
    size = net.hidden
    sequences, last_h, last_c = [], [], []
    plain = activations is None and clip is None and peepholes is None and not input_forget and lengths is None
    for index, reverse in enumerate(net.reverse):
        states = (net.state(initial_h, index), net.state(initial_c, index))
        if plain:
            y, h, c = _torch_lstm(net.x, w[index], r[index], None if b is None else b[index], states, reverse)
            sequences.append(y)
            last_h.append(h)
            last_c.append(c)
            continue
        wb, rb = _biases(b, index, 4 * size)
        p = None if peepholes is None else peepholes[index]
        step = _lstm_step(functions[index], r[index], p, size, input_forget)
        bias = None if wb is None or rb is None else wb + rb
        y, states = _run(F.linear(net.x, w[index], bias), states, step, reverse, lengths)  # type: ignore[assignment]
        sequences.append(y)
        last_h.append(states[0])
        last_c.append(states[1])
    return _shown(net.results(sequences, last_h, last_c), outputs)


def _lstm_step(functions: Any, r: Tensor, p: Tensor | None, size: int, input_forget: int) -> Step:
    f, g, h = functions

    def step(gate: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden, cell = states
        i, o, forget, new = (gate + F.linear(hidden, r)).split(size, 1)
        if p is not None:
            i, forget = i + p[:size] * cell, forget + p[2 * size :] * cell
        i = f(i)
        forget = 1 - i if input_forget else f(forget)
        cell = forget * cell + i * g(new)
        o = f(o if p is None else o + p[size : 2 * size] * cell)
        return o * h(cell), cell

    return step


def _torch_lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, states: tuple[Tensor, Tensor], reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own operator, whose gates are i, f, c, o."""

    def order(weight: Tensor) -> Tensor:
        i, o, f, c = weight.chunk(4)
        return torch.cat([i, f, c, o])

    weights = [order(w), order(r)]
    if b is not None:
        weights += [order(part) for part in b.chunk(2)]
    x = x.flip(0) if reverse else x
    first = tuple(state.unsqueeze(0) for state in states)
    y, h, c = torch.lstm(x, first, weights, b is not None, 1, 0.0, False, False, False)
    return y.flip(0) if reverse else y, h[0], c[0]
