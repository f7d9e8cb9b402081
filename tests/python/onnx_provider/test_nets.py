"""Whole networks: every node on the device, results as ONNX Runtime's CPU provider gives them."""

import numpy
import pytest

from .nets import NETS
from .sessions import differences, on_cpu, on_device

EPS = float(numpy.finfo(numpy.float32).eps)


@pytest.mark.parametrize("optimized", [False, True], ids=["as_written", "optimized"])
@pytest.mark.parametrize("name", NETS)
def test_results_are_those_of_the_cpu_provider(name, optimized):
    model, feed = NETS[name]()
    reference, session = on_cpu(model), on_device(model, alone=not optimized, optimized=optimized)
    for batch in (1, 3, 2):  # sizes are dynamic: a session runs them all
        inputs = feed(batch)
        # a thousand products in a sum, several layers behind each other
        wrong = differences(session.run(None, inputs), reference.run(None, inputs), 16 * EPS * 32, 16 * EPS * 32)
        assert wrong is None, f"batch {batch}: {wrong}"


@pytest.mark.parametrize("name", ["resnet", "mobilenet", "bert"])
def test_half_numbers(name):
    model, feed = NETS[name](numpy.float16)
    wide, _ = NETS[name]()
    inputs = feed(2)
    got = on_device(model).run(None, inputs)[0]
    assert got.dtype == numpy.float16
    want = on_cpu(wide).run(None, {k: v.astype(numpy.float32) if v.dtype.kind == "f" else v for k, v in inputs.items()})
    eps = float(numpy.finfo(numpy.float16).eps)
    assert differences([got.astype(numpy.float32)], want, 8 * eps, 8 * eps) is None
