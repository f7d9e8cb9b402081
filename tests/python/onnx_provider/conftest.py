"""Tests of the provider are skipped where it was not built."""

import pytest

from .sessions import devices, library


@pytest.fixture(autouse=True)
def _provider():
    if library() is None:
        pytest.skip("the execution provider was not built: its headers are missing (./run setup --onnxruntime)")
    if not devices():
        pytest.skip("the execution provider finds no OpenCL device")
