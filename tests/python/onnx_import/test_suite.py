"""A part of ONNX's own backend tests, another one each day; backend_suite.py runs all."""

import os

import pytest
import torch
from onnx.defs import onnx_opset_version

from . import backend_suite

CPU_SHARE, DEVICE_SHARE = 8, 48  # one case of so many


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    os.environ["ONNX_HOME"] = str(tmp_path_factory.mktemp("onnx"))


@pytest.mark.parametrize("place", ["cpu", "ocl"])
def test_cases_of_onnx(place, pytestconfig, folder):
    share = CPU_SHARE if place == "cpu" else DEVICE_SHARE
    known = backend_suite.known_failures(place)
    chosen = backend_suite.cases(place, ["node", "operator"])[pytestconfig.turn % share :: share]
    results = {name: backend_suite.run_case(name, function, place) for _, name, function in chosen}
    failed = {name: problem for name, problem in results.items() if (problem is not None) != (name in known)}
    assert len(results) > 20
    assert not failed


def test_the_list_of_failures_names_cases():
    names = {name for _, name, _ in backend_suite.cases("cpu", ["node", "simple"])}
    assert set(backend_suite.known_failures("cpu")) | set(backend_suite.known_failures("ocl")) <= names


def test_every_newest_operator_is_known_or_listed():
    from torch_ocl.onnx import table

    assert onnx_opset_version() >= 17
    outside_ml = [name for domain, name in table.missing() if domain != "ai.onnx.ml"]
    assert outside_ml == ["Gradient"]
    assert torch.ocl.is_available()
