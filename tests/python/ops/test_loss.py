"""nll_loss and cross entropy against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

SHAPES = [((17, 10), (17,)), ((3, 7, 5, 6), (3, 5, 6)), ((2, 5, 33), (2, 33)), ((4,), ())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("shape", "target_shape"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(device, dtype, reduction, shape, target_shape, weighted):
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = torch.randint(classes, target_shape)
    if target.dim():
        target.view(-1)[0] = -100
    weight = (
        (torch.rand(classes) + 0.5).to(dtype) if weighted else None
    )  # rounded once, so that both sides use the same

    def function(x):
        return F.nll_loss(x, target.to(x.device), None if weight is None else weight.to(x), reduction=reduction)

    check(function, torch.randn(shape), device=device, dtype=dtype)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignore", [-100, 3])
def test_cross_entropy(device, smoothing, ignore):
    target = torch.randint(10, (17,))
    check(
        lambda x: F.cross_entropy(x, target.to(x.device), ignore_index=ignore, label_smoothing=smoothing),
        torch.randn(17, 10),
        device=device,
    )


def test_everything_ignored(device):
    target = torch.full((5,), -100)
    check(lambda x: F.cross_entropy(x, target.to(x.device)), torch.randn(5, 4), device=device, gradients=False)


def test_pixels_of_one_column_whose_classes_lie_together(device):
    x = torch.randn(3, 2, 5).log_softmax(2).transpose(1, 2).unsqueeze(-1)  # the last stride is 1, that of nothing
    target = torch.randint(5, (3, 2, 1))
    ours, expected = x.to(device).contiguous(), F.nll_loss(x, target)
    ours = ours.transpose(1, 2).contiguous().transpose(1, 2).as_strided(x.shape, x.stride())
    torch.testing.assert_close(ours.cpu(), x, rtol=0, atol=0)
    torch.testing.assert_close(F.nll_loss(ours, target.to(device)).cpu(), expected)


def test_channels_last_pixels(device):
    target = torch.randint(5, (2, 6, 7))
    check(
        lambda x: F.nll_loss(x, target.to(x.device)),
        torch.randn(2, 5, 6, 7).to(memory_format=torch.channels_last),
        device=device,
        gradients=False,  # the CPU refuses the gradient: "grad_input must be contiguous"
    )


def test_wrong_shapes(device):
    with pytest.raises((ValueError, RuntimeError)):
        F.nll_loss(torch.randn(3, 5, device=device), torch.zeros(4, dtype=torch.long, device=device))


def test_wrong_target_is_reported(device):
    x = torch.randn(3, 5, device=device)
    loss = F.nll_loss(x, torch.tensor([1, 99, 2], device=device), reduction="none")
    with pytest.raises((RuntimeError, IndexError), match="nll_loss"):
        loss.cpu()
    assert torch.isnan(loss.cpu()).tolist() == [False, True, False]


@pytest.mark.parametrize("side", ["input", "target"])
@pytest.mark.parametrize("wrong", [1.5, -0.25, float("nan")])
def test_binary_cross_entropy_of_no_probability(device, no_fallback, side, wrong):
    pair = {"input": torch.full((3, 5), 0.5), "target": torch.full((3, 5), 0.5)}
    pair[side][2, 3] = wrong
    loss = F.binary_cross_entropy(**{name: t.to(device) for name, t in pair.items()})
    with pytest.raises(RuntimeError, match=f"all elements of {side} should be between 0 and 1"):
        loss.item()
    edges = torch.tensor([0.0, 1.0, 1.0, 0.0])
    check(lambda x: F.binary_cross_entropy(x, edges.flip(0).to(x)), edges, device=device)  # the device goes on
