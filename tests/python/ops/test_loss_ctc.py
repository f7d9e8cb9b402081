"""ctc_loss: values, gradients, every kind of targets and lengths, impossible and empty sequences, errors."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

STEPS, BATCH, CLASSES = 23, 4, 7
LENGTHS = torch.tensor([5, 1, 0, 3])
FRAMES = torch.tensor([23, 9, 4, 17])


def scores(seed=0):
    return torch.randn(STEPS, BATCH, CLASSES, generator=torch.Generator().manual_seed(seed))


def logarithms(steps, loss):
    """Gradients are exp of sums over `steps`, forwards and backwards, of logarithms up to `loss`.

    Each sum is rounded by half an eps.
    """
    return {"roundings": 1 + (2 * steps) ** 0.5 * loss / 2}


def labels():
    padded = torch.randint(1, CLASSES, (BATCH, 5), generator=torch.Generator().manual_seed(1))
    padded[0, 1] = padded[0, 0]  # a repetition needs a blank between
    return padded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_against_the_cpu(reduction, joined, dtype, device):
    targets = torch.cat([row[:n] for row, n in zip(labels(), LENGTHS)]) if joined else labels()

    def function(x):
        return F.ctc_loss(x.log_softmax(-1), targets.to(x.device), FRAMES, LENGTHS, reduction=reduction)

    check(function, scores(), dtype=dtype, gradient=logarithms(STEPS, STEPS * 3))


def test_strided_input_lengths_as_tuples_blank_and_int32(device):
    def function(x):
        return F.ctc_loss(
            x.log_softmax(1).permute(2, 0, 1),
            (labels() % 6).int().to(x.device),
            tuple(FRAMES.tolist()),
            tuple(LENGTHS.tolist()),
            blank=6,
        )

    check(function, scores().permute(1, 2, 0).contiguous(), gradient=logarithms(STEPS, STEPS * 3))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_impossible_sequences(zero_infinity, device, no_fallback):
    frames = torch.tensor([3, 9, 0, 17])  # five labels in three steps; no step for no label

    def run(where):
        x = scores().to(where).requires_grad_()
        loss = F.ctc_loss(
            x.log_softmax(-1), labels().to(where), frames, LENGTHS, reduction="none", zero_infinity=zero_infinity
        )
        loss[torch.isfinite(loss)].sum().backward()
        return loss.detach().cpu(), x.grad.cpu()

    (loss, grad), (expected_loss, expected_grad) = run(device), run("cpu")
    torch.testing.assert_close(loss, expected_loss)
    assert loss[0] == (0 if zero_infinity else float("inf")) and loss[2] == 0
    torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-6, equal_nan=not zero_infinity)


def test_a_long_sequence(device):
    x = torch.randn(300, 2, 30, generator=torch.Generator().manual_seed(2))
    targets = torch.randint(1, 30, (2, 120), generator=torch.Generator().manual_seed(3))
    check(
        lambda x: F.ctc_loss(x.log_softmax(-1), targets.to(x.device), (300, 280), (120, 90)),
        x,
        gradient=logarithms(300, 300 * 4),
    )


def test_module_takes_lengths_on_the_device(device, no_fallback):
    x = scores().log_softmax(-1)
    expected = torch.nn.CTCLoss()(x, labels(), FRAMES, LENGTHS)
    actual = torch.nn.CTCLoss()(x.to(device), labels().to(device), FRAMES.to(device), LENGTHS.to(device))
    torch.testing.assert_close(actual.cpu(), expected)


def test_errors_are_the_cpus(device):
    x, targets = scores().log_softmax(-1), labels()
    wrong = {
        "blank": dict(blank=CLASSES),
        "frames": dict(input_lengths=FRAMES + 10),
        "lengths": dict(target_lengths=LENGTHS + 10),
        "count": dict(target_lengths=LENGTHS[:2]),
        "negative": dict(target_lengths=LENGTHS - 3),
    }
    for name, options in wrong.items():
        arguments = {"input_lengths": FRAMES, "target_lengths": LENGTHS} | options
        with pytest.raises(RuntimeError) as expected:
            F.ctc_loss(x, targets, **arguments)
        with pytest.raises(RuntimeError) as actual:
            F.ctc_loss(x.to(device), targets.to(device), **arguments)
        assert str(actual.value).split("(")[0].replace("gpu", "cpu") == str(expected.value).split("(")[0], name
    with pytest.raises(RuntimeError, match="not implemented for 'Half'"):
        F.ctc_loss(x.half().to(device), targets.to(device), FRAMES, LENGTHS)
