"""Batch, instance, layer, RMS and group normalisation against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from conftest import without_fallback
from layer_checks import check, close

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(3, 5, 7, 11), (2, 67, 7, 7), (37, 13), (3, 8, 33), (2, 3, 4, 5, 6), (1, 3, 64, 65)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(device, dtype, shape, training):
    channels = shape[1]
    mean, var = torch.randn(channels).to(dtype), (torch.rand(channels) + 0.5).to(dtype)  # the same ones for both sides

    def function(x, w, b):
        return F.batch_norm(x, mean.to(x), var.to(x), w, b, training, 0.1, 1e-5)

    check(function, torch.randn(shape) + 2, torch.rand(channels), torch.randn(channels), device=device, dtype=dtype)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_channels_last(device, training):
    x = torch.randn(4, 37, 9, 8).to(memory_format=torch.channels_last)
    stats = torch.randn(37), torch.rand(37) + 0.5
    check(
        lambda x, w: F.batch_norm(x, stats[0].to(x), stats[1].to(x), w, None, training),
        x,
        torch.rand(37),
        device=device,
    )


def test_batch_norm_layouts(device):
    full = torch.randn(4, 12, 9, 8)
    for view in (
        lambda t: t[:, 2:7],
        lambda t: t[::2],
        lambda t: t[..., 1:5],
        lambda t: t.transpose(1, 3),
        lambda t: t.flatten(2).transpose(1, 2),
    ):
        check(lambda x: F.batch_norm(view(x), None, None, None, None, True), full, device=device, strides=False)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics(device, momentum):
    torch.manual_seed(1)
    native = torch.nn.BatchNorm2d(7, momentum=momentum)
    ours = torch.nn.BatchNorm2d(7, momentum=momentum).to(device)
    for _ in range(3):
        x = torch.randn(4, 7, 5, 6) * 3 + 1
        native(x)
        ours(x.to(device))
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        close(getattr(ours, name), getattr(native, name), torch.float32, terms=3 * 4 * 5 * 6)


def test_mixed_types(device):
    layer = torch.nn.BatchNorm2d(5).to(device)  # float32 parameters
    x = torch.randn(3, 5, 4, 4, device=device, dtype=torch.bfloat16, requires_grad=True)
    y = layer(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32 and x.grad.dtype == torch.bfloat16


def test_batch_norm_errors(device):
    x = torch.randn(2, 5, 3, device=device)
    with pytest.raises(RuntimeError, match="weight should contain 5 elements"):
        torch.native_batch_norm(x, torch.ones(4, device=device), None, None, None, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="running_mean"):
        torch.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5)


def test_empty_batch(device):
    layer = torch.nn.BatchNorm2d(5).to(device)
    x = torch.randn(0, 5, 3, 3, device=device, requires_grad=True)
    layer.eval()(x).sum().backward()
    assert layer.weight.grad.cpu().tolist() == [0.0] * 5


def test_instance_norm(device):
    check(
        lambda x, w, b: F.instance_norm(x, None, None, w, b),
        torch.randn(3, 5, 7, 11),
        torch.rand(5),
        torch.randn(5),
        device=device,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(37, 64), (5, 3, 7), (131, 1003), (2, 3, 4, 5)])
def test_layer_norm(device, dtype, shape):
    normalized = shape[-2:] if len(shape) == 4 else shape[-1:]
    parameters = torch.rand(normalized), torch.randn(normalized)
    check(
        lambda x, w, b: F.layer_norm(x, normalized, w, b),
        torch.randn(shape) + 1,
        *parameters,
        device=device,
        dtype=dtype,
    )
    check(lambda x: F.layer_norm(x, normalized), torch.randn(shape), device=device, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(device, dtype):
    check(lambda x, w: F.rms_norm(x, (67,), w), torch.randn(5, 9, 67), torch.rand(67), device=device, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "groups"), [((2, 32, 7, 7), 4), ((3, 6, 5), 3), ((5, 12), 4), ((1, 8, 33, 31), 1)])
def test_group_norm(device, dtype, shape, groups):
    parameters, x = (torch.rand(shape[1]), torch.randn(shape[1])), torch.randn(shape)
    affine = lambda x, w, b: F.group_norm(x, groups, w, b)
    check(affine, x + 1, *parameters, device=device, dtype=dtype, condition=condition(x + 1, groups))
    check(lambda x: F.group_norm(x, groups), x, device=device, dtype=dtype, condition=condition(x, groups))


def condition(x, groups):
    """How much larger the errors of normalised values are than those of x: few values may lie close together."""
    deviations = x.reshape(len(x), groups, -1).std(-1, unbiased=False)
    return max(1.0, (x.abs().max() / deviations.min()).item())


def test_nan_stays_in_its_channel(device):
    x = torch.randn(2, 5, 6, 6)
    x[1, 3, 5, 5] = float("nan")
    with without_fallback():
        y = F.batch_norm(x.to(device), None, None, training=True)
    assert torch.isnan(y).cpu().any(dim=3).any(dim=2).any(dim=0).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pieces_of_synchronized_batch_norm(device, dtype, no_fallback):
    """Statistics of two halves joined, then forward and backward, against batch norm of the whole on the CPU."""
    torch.manual_seed(3)
    x, grad = (torch.randn(7, 5, 3, 4).to(dtype) for _ in range(2))
    weight, bias, mean, var = torch.rand(5) + 0.5, torch.randn(5), torch.zeros(5), torch.ones(5)
    leaf, w, b = x.float().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()
    expected_mean, expected_var = mean.clone(), var.clone()
    expected = F.batch_norm(leaf, expected_mean, expected_var, w, b, True, 0.1, 1e-5)
    expected.backward(grad.float())

    x, grad, weight, bias, mean, var = (t.to(device) for t in (x, grad, weight, bias, mean, var))
    parts = [torch.batch_norm_stats(part, 1e-5) for part in (x[:3], x[3:])]
    counts = torch.tensor([3 * 12.0, 4 * 12.0], device=device)
    joint, invstd = torch.batch_norm_gather_stats_with_counts(
        x, torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts]), mean, var, 0.1, 1e-5, counts
    )
    y = torch.batch_norm_elemt(x, weight, bias, joint, invstd, 1e-5)
    total, product, grad_weight, grad_bias = torch.batch_norm_backward_reduce(
        grad, x, joint, invstd, weight, True, True, True
    )
    grad_x = torch.batch_norm_backward_elemt(grad, x, joint, invstd, weight, total, product, counts.int())
    pairs = [
        (y, expected),
        (mean, expected_mean),
        (var, expected_var),
        (grad_x, leaf.grad),
        (grad_weight, w.grad),
        (grad_bias, b.grad),
    ]
    for actual, reference in pairs:
        close(actual, reference, actual.dtype, terms=x.numel())
    assert y.dtype == grad_x.dtype == dtype
