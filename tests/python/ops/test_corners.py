"""Corners that once differed from the CPU: values, shapes, strides, warnings and exceptions of small programs."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from tests.python.conformance.compare import Raised, compare, outcome, strides_differ

NAN, INF = float("nan"), float("inf")


def sampled(device, mode):
    grid = (
        torch.tensor([[0.1, NAN], [NAN, NAN], [INF, 0.2], [-INF, 0.3], [0.3, -0.2], [1.0, 1.0]])
        .view(1, 1, 6, 2)
        .to(device)
    )
    return F.grid_sample(torch.arange(20.0).view(1, 1, 4, 5).to(device), grid, mode, "zeros", True)


def norms(device, p):
    """Rows whose vectors end in another row, a zero and a denormal number among the values."""
    x = torch.linspace(-2, 3, 7 * 33, dtype=torch.float64).view(7, 33)
    x[2, 5], x[3, 32], x[4, 0] = 0.0, 1e-310, -1e-320
    x = x.to(device)
    return torch.linalg.vector_norm(x, p, -1), torch.linalg.vector_norm(x, p, 0), torch.cdist(x[:, :3], x[:5, 3:6], p)


def foreach_powers(device):
    x = torch.linspace(0, 3, 33, dtype=torch.float64).to(device)
    return torch._foreach_pow([x], 2.5) + torch._foreach_pow([x], [x]) + torch._foreach_pow(2.0, [x])


def channels_last_slice(device):
    return torch.arange(120.0).view(2, 3, 4, 5).to(device).to(memory_format=torch.channels_last)[:, 1:]


ROWS = {
    "isin of a number": lambda d: torch.isin(2, torch.tensor([1, 2]).to(d)),
    "clamp beyond the type": lambda d: torch.ones(3, dtype=torch.int8).to(d).clamp(min=300),
    "clamp_max beyond the type": lambda d: torch.ones(3, dtype=torch.uint8).to(d).clamp_max(-1),
    "pow beyond the type": lambda d: torch.pow(torch.ones(3, dtype=torch.int8).to(d), 200),
    "hardtanh of uint8": lambda d: F.hardtanh(torch.ones(3, dtype=torch.uint8).to(d)),
    "histogram without bins": lambda d: torch.histogram(torch.ones(3).to(d), 0),
    "uint8 condition": lambda d: torch.where(
        torch.tensor([0, 1], dtype=torch.uint8).to(d), torch.ones(2).to(d), torch.zeros(2).to(d)
    ),
    "strided boundaries": lambda d: torch.searchsorted(torch.arange(12.0).to(d)[::2], torch.tensor([3.0, 4.0]).to(d)),
    "complex to real": lambda d: torch.tensor([1 + 2j, 3j]).to(d).to(torch.float32),
    "nan_to_num of complex": lambda d: torch.nan_to_num(torch.tensor([complex(NAN, INF), complex(-INF, 1), 2j]).to(d)),
    "std of one": lambda d: torch.std(torch.ones(1).to(d)),
    "var of one": lambda d: torch.var(torch.ones(1).to(d)),
    "bool product without columns": lambda d: (
        torch.ones(4, 0, dtype=torch.bool).to(d) @ torch.ones(0, 3, dtype=torch.bool).to(d)
    ),
    "weight of another dtype": lambda d: F.nll_loss(
        torch.zeros(2, 3).to(d), torch.tensor([0, 1]).to(d), torch.ones(3, dtype=torch.float64).to(d)
    ),
    "target of another dtype": lambda d: F.binary_cross_entropy(
        torch.rand(3).to(d), torch.ones(3, dtype=torch.float64).to(d)
    ),
    "sum into bool": lambda d: torch.sum(
        torch.tensor([[0.5, 0.0], [0.25, 0.0]]).to(d), 0, out=torch.empty(2, dtype=torch.bool).to(d)
    ),
    "sum to zero into bool": lambda d: torch.sum(torch.tensor([1.0, -1.0]).to(d), dtype=torch.bool),
    "product in bool": lambda d: torch.prod(torch.tensor([0.5, 0.25]).to(d), dtype=torch.bool),
    "loss into int": lambda d: torch._C._nn.mse_loss(
        torch.ones(3).to(d), torch.zeros(3).to(d), out=torch.empty((), dtype=torch.int32).to(d)
    ),
    "range into another size": lambda d: torch.range(0, 4, out=torch.zeros(7).to(d)),
    "roll keeps channels last": lambda d: torch.roll(
        torch.arange(120.0).view(2, 3, 4, 5).to(d).to(memory_format=torch.channels_last), 1, 1
    ),
    "dropout of a slice": lambda d: F.dropout(channels_last_slice(d), 0.5).stride(),
    **{
        f"points that are no numbers, {mode}": lambda d, mode=mode: sampled(d, mode)
        for mode in ("bilinear", "nearest", "bicubic")
    },
    **{f"norm of order {p}": lambda d, p=p: norms(d, p) for p in (0.5, 1.5, 3.0)},
    "foreach pow": foreach_powers,
}


def observed(procedure, device):
    """(outcome, texts of the warnings)"""
    torch.manual_seed(0)
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = outcome(lambda: procedure(device))
    finally:
        torch.set_warn_always(False)
    return result, {str(w.message).split(" (Triggered")[0].splitlines()[0] for w in caught}


@pytest.mark.parametrize("name", ROWS)
def test_corner(device, no_fallback, name):
    expected, expected_warnings = observed(ROWS[name], "cpu")
    actual, actual_warnings = observed(ROWS[name], device)
    compare(actual, expected)
    assert actual_warnings == expected_warnings
    if isinstance(expected, Raised):
        assert str(actual.error) == str(expected.error)
    else:
        assert strides_differ(actual, expected) is None


@pytest.mark.parametrize("offsets", [[1, 2], [0, 9]])
def test_offsets_of_bags_are_reported(device, offsets):
    indices, weight = torch.tensor([0, 1, 2]).to(device), torch.ones(4, 2).to(device)
    result = F.embedding_bag(indices, weight, torch.tensor(offsets).to(device))
    with pytest.raises(RuntimeError, match="offsets have to start with 0"):
        result.cpu()
    assert F.embedding_bag(indices, weight, torch.tensor([0, 2]).to(device), mode="sum").tolist() == [
        [2.0, 2.0],
        [1.0, 1.0],
    ]
