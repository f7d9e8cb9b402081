"""Unmodified models of well-known libraries: outputs, loss and gradients as on the CPU, generated tokens equal, no
operator on the CPU.

The table of models is in benchmarks/zoo. One model of each kind runs every day; `--full`, or `python -m
benchmarks.zoo`, runs all.
"""

import pytest

from benchmarks.zoo import all_models
from benchmarks.zoo.check import check
from benchmarks.zoo.model import Model

MODELS = [
    pytest.param(model, id=name, marks=() if model.quick else pytest.mark.full) for name, model in all_models().items()
]


@pytest.mark.parametrize("model", MODELS)
def test_model_is_as_on_the_cpu(model: Model, device):
    report = check(model, device)
    assert not report.failures
    assert not report.fallbacks, f"ran on the CPU: {report.fallbacks}"
