"""A part of ONNX's node tests, another one each day (--turn); node_suite.py runs all."""

import pytest

from . import node_suite

PARTS = 10
LEAST = {"Relu": "test_relu", "Conv": "test_basic_conv_with_padding", "MatMul": "test_matmul_3d",
         "LayerNormalization": "test_layer_normalization_4d_axis1", "Softmax": "test_softmax_axis_1"}  # fmt: skip


@pytest.mark.parametrize("name", LEAST.values(), ids=LEAST)
def test_claims(name):
    """These must run on the device, so that a provider that claims nothing does not pass."""
    assert node_suite.claimed(node_suite.cases()[name]) is not None


def test_cases_that_are_claimed_are_right(request):
    failures = {}
    for name in list(node_suite.cases())[request.config.turn % PARTS :: PARTS]:
        case = node_suite.cases()[name]
        session = node_suite.claimed(case)
        if session is not None and (reason := node_suite.failure(case, session)):
            failures[name] = reason
    assert not failures
