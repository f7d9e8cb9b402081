"""Operators that are one row of a table: registered from the row, or called by the row's name."""

import pytest
import torch

KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key


@pytest.mark.parametrize("name", ["sin", "erf", "special_entr", "special_i1e", "special_zeta", "igamma", "sigmoid"])
def test_a_row_registers_every_form_that_pytorch_has(name):
    in_place = torch._C._jit_get_schemas_for_operator(f"aten::{name}_")
    for form in (name, f"{name}.out", *([f"{name}_"] if in_place else [])):
        assert KERNELS(f"aten::{form}", "PrivateUse1"), form


def test_forms_agree_with_the_cpu(device):
    x = torch.linspace(-2, 2, 203)
    want = x.sinh()
    mine = x.to(device)
    out = torch.empty(0, device=device)
    assert torch.sinh(mine, out=out) is out
    in_place = mine.clone()
    assert in_place.sinh_() is in_place
    for got in (mine.sinh(), out, in_place):
        torch.testing.assert_close(got.cpu(), want, rtol=2e-6, atol=0)
    whole = torch.arange(-3, 4)
    torch.testing.assert_close(whole.to(device).sinh().cpu(), whole.sinh(), rtol=2e-6, atol=0)


def test_errors_are_pytorchs(device):
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.arange(3, device=device).sinh_()
    with pytest.raises(RuntimeError, match="not implemented for 'Half'"):
        torch.special.bessel_j0(torch.ones(3, device=device, dtype=torch.half))
    with pytest.raises(RuntimeError, match=r"partially overlap|single memory location|partial overlap"):
        x = torch.ones(10, device=device)
        torch.sin(x[:9], out=x[1:])


def test_elementwise_rows_by_name(device):
    x, y = torch.randn(7, 5), torch.randn(5)
    got = torch.ops.ocl.elementwise("add_alpha", [x.to(device), y.to(device)], [3.0])
    torch.testing.assert_close(got.cpu(), x + 3 * y)
    with pytest.raises(ValueError, match="takes 2 tensors, but got 1"):
        torch.ops.ocl.elementwise("add_alpha", [x.to(device)], [3.0])
    with pytest.raises((ValueError, RuntimeError), match="there is no elementwise operator nonsense"):
        torch.ops.ocl.elementwise("nonsense", [x.to(device)], [])


def test_reductions_by_name(device):
    x = torch.randn(6, 7, 8)
    got = torch.ops.ocl.reduce("norm_1", x.to(device), [0, 2], keepdim=True)
    torch.testing.assert_close(got.cpu(), x.abs().sum((0, 2), keepdim=True))
    torch.testing.assert_close(torch.ops.ocl.reduce("sum", x.to(device)).cpu(), x.sum(), rtol=1e-5, atol=1e-5)
    with pytest.raises((ValueError, RuntimeError), match="there is no reduction nonsense"):
        torch.ops.ocl.reduce("nonsense", x.to(device))
    with pytest.raises(ValueError, match="use PyTorch's operator"):
        torch.ops.ocl.reduce("argmax", x.to(device))
