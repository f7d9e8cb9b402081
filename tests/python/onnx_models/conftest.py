"""Without the onnx package there is nothing to test here."""

import pytest

pytest.importorskip("onnx", reason="the optional package onnx is not installed")
