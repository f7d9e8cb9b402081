"""The command that tables errors of quantised weights, and bounds for what it finds."""

import pytest
import torch

from benchmarks import quantization
from conftest import without_fallback

ROUNDED = ("Dynamic", "bitsandbytes int8")  # formats that round inputs to 8 bits
# By "bits" of a weight: what the nearest of so many values, evenly spaced for each scale, may lose.
WEIGHTS = {8: 0.03, 4: 0.13}


@pytest.mark.parametrize("row", list(quantization.formats()), ids=lambda row: row[0].replace("`", ""))
def test_errors(device, monkeypatch, row):
    name, quantise, means_something = row
    monkeypatch.setattr(quantization, "N", 64)
    monkeypatch.setattr(quantization, "ROWS", (1, 20))
    with without_fallback():
        bits, lost, products = quantization.errors(quantise)
    assert 4 <= bits < 10 and (not means_something or 0.003 < lost < WEIGHTS[8 if bits >= 8 else 4])
    terms = quantization.K
    for place, error in enumerate(products):
        eps = torch.finfo(quantization.DTYPES[place // 2]).eps
        if any(part in name for part in ROUNDED):
            assert 0.002 < error < 0.02
        else:
            assert error <= eps * (1 if eps > 1e-4 else terms**0.5)
