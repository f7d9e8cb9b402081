"""Corners in which the CPU, CUDA and this device could differ, decided as CUDA decides them."""

import pytest
import torch
from torch.nn import functional

A, B = torch.randn(3, 4), torch.randn(4, 5)


@pytest.mark.parametrize("call", [
    lambda d: torch.ones(5, device=d).addmm_(A.to(d), B.to(d)),
    lambda d: torch.ones(1, 5, device=d).addmm_(A.to(d), B.to(d)),
    lambda d: torch.ones(1, device=d).addmv_(A.to(d), B[:, 0].to(d)),
    lambda d: torch.ones(1, 3, 1, device=d).baddbmm_(A[None].to(d), B[None].to(d)),
    lambda d: torch.ones(1, 5, device=d).addr_(A[:, 0].to(d), B[0].to(d)),
])  # fmt: skip
def test_in_place_sums_do_not_grow(call, device):
    with pytest.raises(RuntimeError) as expected:
        call("cpu")
    with pytest.raises(RuntimeError) as actual:
        call(device)
    assert str(actual.value) == str(expected.value)


def test_addbmm_grows(device, no_fallback):
    grown = torch.full((1, 5), 2.0, device=device).addbmm_(A[None].to(device), B[None].to(device), beta=0.5)
    assert grown.device.type == "ocl"
    torch.testing.assert_close(grown.cpu(), 1 + A @ B)
    plain = torch.full((3, 5), 2.0, device=device).addr_(A[:, 0].to(device), B[0].to(device), alpha=2)
    torch.testing.assert_close(plain.cpu(), 2 + 2 * torch.outer(A[:, 0], B[0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"reduction": "sum"}])
def test_cross_entropy_under_autocast_is_computed_in_float32(dtype, options, device, no_fallback):
    torch.manual_seed(0)
    logits, target = (torch.randn(64, 1000) * 4).to(dtype), torch.randint(0, 1000, (64,))
    exact = functional.cross_entropy(logits.double(), target, **options)
    here = logits.to(device).requires_grad_()
    with torch.autocast(device, dtype=dtype):
        loss = functional.cross_entropy(here, target.to(device), **options)
        soft = functional.cross_entropy(here.detach(), logits.softmax(1).to(device))
    assert loss.dtype == soft.dtype == torch.float32 and loss.device.type == "ocl"
    torch.testing.assert_close(loss.detach().cpu().double(), exact, rtol=2e-6, atol=0)
    torch.testing.assert_close(
        soft.cpu(), functional.cross_entropy(logits.float(), logits.softmax(1).float()), rtol=1e-5, atol=0
    )
    loss.backward()
    assert here.grad.dtype == dtype


def test_errors_of_convolutions_on_two_devices(device):
    x, w = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)
    for call, a, b in [(functional.conv2d, x, w), (functional.conv_transpose2d, x, w.transpose(0, 1)),
                       (functional.conv1d, x[0], w[0])]:  # fmt: skip
        with pytest.raises(
            RuntimeError, match=r"Input type \(torch.FloatTensor\) and weight type \(.*ocl.*Float.*\) should"
        ):
            call(a, b.to(device))
        with pytest.raises(
            RuntimeError, match=r"Input type \(.*ocl.*Float.*\) and weight type \(torch.FloatTensor\) should"
        ):
            call(a.to(device), b)
    with pytest.raises(RuntimeError, match=r"bias type \(torch.FloatTensor\) should be the same"):
        functional.conv2d(x.to(device), w.to(device), torch.randn(2))


def test_systems_on_two_devices(device):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.linalg.solve(torch.eye(3, device=device), torch.ones(3))
    torch.testing.assert_close(torch.linalg.solve(torch.eye(3, device=device) * 2, torch.ones(3, device=device)).cpu(),
                               torch.full((3,), 0.5))  # fmt: skip


def test_lists_without_indices(device):
    x = torch.randn(3, 4, device=device)
    with pytest.raises((IndexError, RuntimeError)):
        torch.ops.aten._unsafe_index(x, [None, None])
    with pytest.raises((IndexError, RuntimeError)):
        torch.ops.aten._unsafe_index_put(x, [None, None], x, False)
    with pytest.raises(RuntimeError, match="Expected grad of size"):
        torch.ops.aten._log_softmax_backward_data(x[:0], x, 0, torch.float32)


def test_operators_called_as_they_are_check_sizes(device):
    """ATen's entries check for them; kernels must not read beyond what they are given."""
    aten, x = torch.ops.aten, torch.randn(1, 2, 4, 4, device=device)
    five = torch.ones(3, 5, 1, 1, device=device)
    with pytest.raises(RuntimeError, match="3D to 5D"):
        aten.convolution_overrideable(x, x[0, 0, 0], None, [1], [0, 0], [1], False, [0, 0], 1)
    with pytest.raises(RuntimeError, match="channels"):
        aten.convolution_overrideable(x, five, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    with pytest.raises(RuntimeError, match="expected a gradient of size"):
        weight = torch.ones(3, 2, 3, 3, device=device)
        aten.convolution_backward_overrideable(
            x, x, weight, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
        )
    with pytest.raises(RuntimeError, match=r"elements|expected"):
        aten.native_batch_norm_backward(x, x, None, None, None, x, x, True, 1e-5, [True, False, False])
    with pytest.raises(RuntimeError, match="gradient of its size"):
        aten.native_batch_norm_backward(x[..., :1], x, None, None, None, x[0, :, 0, 0], x[0, :, 0, 0], True, 1e-5,
                                        [True, False, False])  # fmt: skip


@pytest.mark.parametrize("function", [torch.var, torch.std])
def test_spread_of_complex_numbers_into_a_complex_tensor(function, device):
    x = torch.tensor([[1 + 2j, 3 - 1j, 0.5j], [2, -4j, 1 + 1j]])
    out = torch.empty(0, dtype=torch.complex64, device=device)
    assert function(x.to(device), 1, out=out) is out
    torch.testing.assert_close(out.cpu(), function(x, 1, out=torch.empty(0, dtype=torch.complex64)))
    with pytest.raises(RuntimeError, match="can't be cast"):
        function(x.to(device).real, 1, out=torch.empty(0, dtype=torch.int64, device=device))
