"""torch.compile on the device: a fresh compiler for every test, and failures that are seen instead of run around."""

import pytest
import torch

from conformance import cases
from torch_ocl.inductor import fallback


def pytest_generate_tests(metafunc):
    """`operator`: those of a module's NAMES whose turn it is today, TURN of them; with --full all."""
    if "operator" in metafunc.fixturenames:
        names, config = metafunc.module.NAMES, metafunc.config
        some = names if config.getoption("--full") else cases.turn(names, config.turn, metafunc.module.TURN)
        metafunc.parametrize("operator", some)


@pytest.fixture(autouse=True)
def _compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fallback, "strict", True)
    torch._dynamo.reset()
    torch.ocl.reset_fallbacks()
    yield
    torch._dynamo.reset()
