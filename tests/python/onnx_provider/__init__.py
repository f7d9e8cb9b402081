"""The execution provider for ONNX Runtime (csrc/onnxruntime). Without ONNX Runtime there is nothing to test here."""

import pytest

pytest.importorskip("onnx", reason="the optional package onnx is not installed")
pytest.importorskip("onnxruntime", minversion="1.23", reason="the optional package onnxruntime is not installed")
