"""segment_reduce by lengths and by offsets: agreement with the CPU and gradients, empty segments, NaN, ties."""

import pytest
import torch

from conftest import without_fallback
from layer_checks import check

LENGTHS = {0: [3, 0, 1, 4], 1: [[2, 0, 5, 1], [8, 0, 0, 0], [0, 3, 3, 2]]}
# A zero alone and two in one segment, a NaN, and equal elements of both signs.
ODD = [2.0, 0.0, 3.0, 0.0, 0.0, 4.0, float("nan"), 5.0]
EQUAL = [1.0, 1.0, -2.0, 3.0, 3.0, 3.0, -1.0, 0.5]


def segments(axis, by, device):
    """The keywords that name the segments."""
    lengths = torch.tensor(LENGTHS[axis])
    offsets = torch.cat([torch.zeros_like(lengths[..., :1]), lengths.cumsum(-1)], -1)
    return {by: (lengths if by == "lengths" else offsets).to(device), "axis": axis}


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("by", ["lengths", "offsets"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_values_and_gradients(reduce, by, axis, initial, device):
    x = torch.randn((8, 5) if axis == 0 else (3, 8, 5)) + 2
    # Empty segments have no mean, which is NaN.
    check(lambda x: torch.segment_reduce(x, reduce, initial=initial, **segments(axis, by, x.device)).nan_to_num(7), x)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("values", [ODD, EQUAL])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_zeros_nan_and_ties_as_on_the_cpu(reduce, values, dtype, device):
    results = []
    for place in ("cpu", device):
        x = torch.tensor(values, dtype=dtype, device=place).requires_grad_()
        with without_fallback():
            y = torch.segment_reduce(x, reduce, lengths=torch.tensor([1, 2, 3, 0, 2], device=place))
            (gradient,) = torch.autograd.grad(y, x, torch.tensor([1, -2, 3, 4, -5], dtype=dtype, device=place))
        results.append((y.detach().cpu(), gradient.cpu()))
    for ours, theirs in zip(*reversed(results), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_bad_input_gets_the_error_of_the_cpu(device):
    x = torch.ones(4)
    for arguments in ({"lengths": [1, 2]}, {"lengths": [-1, 5]}, {}):
        messages = []
        for place in ("cpu", device):
            named = {name: torch.tensor(value, device=place) for name, value in arguments.items()}
            with pytest.raises(RuntimeError) as caught:
                torch.segment_reduce(x.to(place), "sum", **named)
            messages.append(str(caught.value).splitlines()[0])
        assert messages[0] == messages[1]
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.segment_reduce(x.long().to(device), "sum", lengths=torch.tensor([4], device=device))
