"""torch.compile on the device: a fresh compiler for every test, and failures that are seen instead of run around."""

import pytest
import torch

from torch_ocl.inductor import fallback


@pytest.fixture(autouse=True)
def _compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fallback, "strict", True)
    torch._dynamo.reset()
    torch.ocl.reset_fallbacks()
    yield
    torch._dynamo.reset()
