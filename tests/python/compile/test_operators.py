"""PyTorch's operator database compiled, against the CPU without a compiler.

Each day other operators have their turn; `--full` runs all of them.
"""

import pytest
import torch

from conformance import cases, compare, place, recorder, samples

TURN, SAMPLES = 12, 2
# Of an empty tensor the mean beside a variance is 0 for Inductor on every device, and NaN without it.
WRONG_IF_EMPTY = ("var_mean", "std_mean")
LEFT_OUT = ("tensor_split",)  # reads its indices on the CPU
NAMES = [
    name
    for name, op in cases.operators().items()
    if torch.float32 in op.supported_dtypes("cpu") and name not in LEFT_OUT
]


def compiled(function):
    def call(*args, **kwargs):  # a Python function: Dynamo compiles no built-in one by itself
        return function(*args, **kwargs)

    return torch.compile(call)


def mismatches(name):
    op = cases.operators()[name]
    for sample in samples.samples_of(op, torch.float32, SAMPLES):
        arguments = samples.arguments(sample, op)
        if op.name in WRONG_IF_EMPTY and sample.input.numel() == 0:
            continue

        def run(device, function=op.op, arguments=arguments):
            values = place.place_all(arguments, device)
            return samples.without_ties(op, samples.call(function, values), values)

        def precise(run=run, arguments=arguments):
            return run("cpu", arguments=place.widened(arguments))

        expected = compare.outcome(lambda run=run: run("cpu"))
        if (
            op.name in samples.UNINITIALIZED
            or isinstance(expected, compare.Raised)
            or recorder.is_random(lambda run=run: run("cpu"))
        ):
            continue
        torch._dynamo.reset()
        actual = compare.outcome(lambda run=run: run("ocl", compiled(op.op)))
        if isinstance(actual, compare.Raised) and isinstance(actual.error, place.Unsupported):
            continue
        try:
            compare.compare(actual, expected, "ocl", precise)
        except compare.Mismatch as error:
            yield f"{name}{samples.describe(sample)}: {error}"


def test_as_without_a_compiler(device, operator):
    assert list(mismatches(operator)) == []


HARD = (
    "argmax", "masked.argmax", "masked.var", "nn.functional.max_unpool2d", "polygamma.polygamma_n_2",
    "special.polygamma.special_polygamma_n_0", "var_mean.unbiased", "std_mean.unbiased",
    "nn.functional.interpolate.area",
    "nn.functional.unfold", "index_reduce.prod", "searchsorted", "cdist", "nn.functional.grid_sample", "logcumsumexp",
)  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_operators_that_were_hard(device, name):
    assert list(mismatches(name)) == []
