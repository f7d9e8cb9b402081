"""The tests' own test: what tolerances, layer_checks and the conformance suite must not let pass, for every type."""

import pytest
import torch

from conformance import compare as conformance
from conformance.tolerances import COMPUTE, assert_close

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex64, torch.complex128]
TERMS = [1, 144, 20_000, 1_000_000]


def wide(tensor):
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def one_wrong(result):
    result = result.clone()
    place = result.abs().flatten().argsort()[result.numel() // 2]  # the median: neither large nor nearly zero
    result.view(-1)[place] *= 1.5
    return result


def one_nan(result):
    result = result.clone()
    result.view(-1)[result.numel() // 2] = torch.nan
    return result


MUTATIONS = {
    "zeros": torch.zeros_like,
    "two_percent": lambda result: (wide(result) * 1.02).to(result.dtype),
    "one_wrong_element": one_wrong,
    "one_nan": one_nan,
    "negated": torch.neg,
    "neighbours": lambda result: result.roll(1),
}


def exact_result(shape, dtype, terms):
    """Sums of `terms` products, and what a device computes of them, rounded in the type that it computes in."""
    of = torch.complex128 if dtype.is_complex else torch.float64
    exact, noise = (torch.randn(shape, dtype=of, generator=torch.Generator().manual_seed(s)) for s in (terms, 1))
    noise *= 4 / noise.abs().clamp_min(4)  # at most 4
    exact *= terms**0.5
    computed = torch.finfo(COMPUTE.get(dtype, dtype)).eps
    return exact, (exact + 0.25 * computed * terms**0.5 * terms**0.5 * noise).to(dtype)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shape", [(5,), (2, 16, 7, 7)])
@pytest.mark.parametrize("dtype", TYPES + COMPLEX, ids=str)
def test_what_a_device_computes_passes(dtype, shape, terms):
    exact, computed = exact_result(shape, dtype, terms)
    assert_close(computed, exact, terms=terms)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("shape", [(5,), (2, 16, 7, 7)])
@pytest.mark.parametrize("dtype", TYPES + COMPLEX, ids=str)
def test_mutations_fail(dtype, shape, mutation, terms):
    exact, computed = exact_result(shape, dtype, terms)
    with pytest.raises(AssertionError, match="values; at"):
        assert_close(MUTATIONS[mutation](computed), exact, terms=terms, own=computed)


@pytest.mark.parametrize("mutation", ["zeros", "two_percent", "negated"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_wrong_cpu_is_no_excuse(dtype, mutation):
    """The CPU's own error is a yardstick up to a cap only."""
    exact, computed = exact_result((2, 16, 7, 7), dtype, 144)
    with pytest.raises(AssertionError):
        assert_close(MUTATIONS[mutation](computed), exact, terms=144, own=torch.zeros_like(exact))


def test_infinities_and_nan_have_their_places():
    exact = torch.tensor([1.0, torch.inf, -torch.inf, torch.nan, 0.0], dtype=torch.float64)
    assert_close(exact.float(), exact)
    for place, value in (
        (0, torch.nan),
        (1, -torch.inf),
        (1, 3e38),
        (1, torch.nan),
        (3, 1.0),
        (0, torch.inf),
        (4, 1e-3),
    ):
        wrong = exact.float()
        wrong[place] = value
        with pytest.raises(AssertionError):
            assert_close(wrong, exact)


def test_integers_are_equal():
    assert_close(torch.tensor([1, 2]), torch.tensor([1, 2]))
    with pytest.raises(AssertionError):
        assert_close(torch.tensor([1, 2]), torch.tensor([1, 3]))


class Wrong(torch.autograd.Function):
    """The identity, whose value or gradient is wrong on the device alone."""

    @staticmethod
    def forward(ctx, x, mutation, where):
        ctx.mutation, ctx.where = mutation, where
        return mutation(x) if where == "value" and x.device.type == "ocl" else x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return (
            (ctx.mutation(gradient) if ctx.where == "gradient" and gradient.device.type == "ocl" else gradient),
            None,
            None,
        )


def on_the_cpu(mutation):
    return lambda tensor: mutation(tensor.cpu()).to(tensor.device)


@pytest.mark.parametrize("where", ["value", "gradient"])
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_layer_checks_see_mutations(dtype, mutation, where, device):
    """As the tests of convolutions call it, where a part of the largest value once let gradients of zeros pass."""
    from ops.layer_checks import check

    x, w, b = torch.randn(2, 7, 13, 17), torch.randn(11, 7, 3, 3) / 63**0.5, torch.randn(11)

    def function(x, w, b, wrong=True):
        if wrong:
            x, w = (Wrong.apply(t, on_the_cpu(MUTATIONS[mutation]), where) for t in (x, w))
        return torch.nn.functional.conv2d(x, w, b, padding=1)

    check(lambda *tensors: function(*tensors, wrong=False), x, w, b, dtype=dtype)
    with pytest.raises(AssertionError):
        check(function, x, w, b, dtype=dtype)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("dtype", TYPES + COMPLEX, ids=str)
def test_conformance_sees_mutations(dtype, mutation, scale):
    exact, computed = exact_result((2, 16, 7, 7), dtype, 1)
    exact, computed = exact * scale, (exact * scale).to(dtype)
    if dtype == torch.float16 and scale < 1e-4:
        return  # below its normal numbers
    conformance.compare(computed, computed.clone(), "cpu", precise=lambda: exact)
    with pytest.raises(conformance.Mismatch):
        conformance.compare(MUTATIONS[mutation](computed), computed, "cpu", precise=lambda: exact)


def test_conformance_takes_terms_that_cancel_as_the_cpus_noise():
    exact = torch.tensor([2e-17, -1e-17, 0.0], dtype=torch.float64)
    cpu = torch.tensor([2e-8, 0.0, -1e-8])
    conformance.compare(-cpu, cpu, "cpu", precise=lambda: exact)
    with pytest.raises(conformance.Mismatch):
        conformance.compare(cpu + 1e-6, cpu, "cpu", precise=lambda: exact)
    with pytest.raises(conformance.Mismatch):  # nothing cancels, and a result of a tenth is no noise
        conformance.compare(-cpu, cpu, "cpu", precise=cpu.double)


def test_conformance_compares_what_overflow_leaves():
    exact = torch.tensor([1.0, 1e6, 3.0, 0.3337], dtype=torch.float64)
    cpu = torch.tensor([1.0, float("inf"), float("nan"), 0.3345], dtype=torch.float16)  # the last is wrong
    device = cpu.clone()
    device[3] = exact[3]
    conformance.compare(device, cpu, "cpu", precise=lambda: exact)
    for place, value in ((1, float("nan")), (2, 3.0), (3, 0.4), (0, float("nan"))):
        wrong = device.clone()
        wrong[place] = value
        with pytest.raises(conformance.Mismatch):
            conformance.compare(wrong, cpu, "cpu", precise=lambda: exact)
