"""Padding against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

CASES = [
    ((2, 3, 40), (5, 17)),
    ((2, 3, 13, 61), (2, 4, 3, 1)),
    ((1, 2, 5, 7, 11), (4, 10, 3, 6, 2, 4)),
    ((3, 40), (1, 2)),
]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize(("shape", "padding"), CASES)
def test_modes(device, mode, shape, padding):
    if mode == "circular" and any(p > s for p, s in zip(padding, [s for s in reversed(shape) for _ in (0, 1)])):
        pytest.skip("PyTorch refuses it")
    check(lambda x: F.pad(x, padding, mode=mode), torch.randn(shape), device=device, strides=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_types(device, dtype):
    check(lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"), torch.randn(2, 3, 9, 33), device=device, dtype=dtype)


def test_negative(device):
    check(lambda x: F.pad(x, (-1, 2, 3, -2), mode="replicate"), torch.randn(2, 3, 9, 33), device=device)


def test_errors(device):
    with pytest.raises(RuntimeError):
        F.pad(torch.randn(1, 2, 3, 4, device=device), (5, 0, 0, 0), mode="reflect")


def test_a_view_given_as_out_is_written_where_it_lies(device, no_fallback):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    expected = F.pad(x, (1, 1, 1, 1), mode="reflect")
    base = torch.full((2, 3, 6, 14), 9.0, device=device)
    torch._C._nn.reflection_pad2d(x.to(device), (1, 1, 1, 1), out=base[..., ::2])
    assert torch.equal(base[..., ::2].cpu(), expected) and (base[..., 1::2] == 9).all()
    pair = torch.full((2, 2, 3, 6, 7), 9.0, device=device)
    torch._C._nn.reflection_pad2d(x.to(device), (1, 1, 1, 1), out=pair[1])
    assert torch.equal(pair[1].cpu(), expected) and (pair[0] == 9).all()
