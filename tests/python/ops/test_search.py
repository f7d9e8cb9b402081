"""searchsorted and bucketize: several searches at a time, rows of their own boundaries, sorters, NaN."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right, device, no_fallback):
    for m in (0, 1, 2, 3, 7, 8, 9, 1000):
        boundaries = (torch.randn(3, m) * 10).to(dtype).sort(1)[0]
        for n in (1, 7, 8, 9, 25):
            values = torch.cat(
                [(torch.randn(3, n) * 10).to(dtype), boundaries[:, :5]], 1
            )  # numbers beside boundaries and on them
            for b, v in ((boundaries, values), (boundaries[0].contiguous(), values)):
                result = torch.searchsorted(b.to(device), v.to(device), right=right)
                assert result.device.type == "ocl" and torch.equal(result.cpu(), torch.searchsorted(b, v, right=right))
        assert torch.equal(
            torch.bucketize(values.to(device), boundaries[1].to(device), right=right).cpu(),
            torch.bucketize(values, boundaries[1], right=right),
        )


def test_sorter(device, no_fallback):
    sequence, values = torch.randn(5, 33), torch.randn(5, 19)
    sorter = sequence.argsort(1)
    result = torch.searchsorted(sequence.to(device), values.to(device), sorter=sorter.to(device))
    assert torch.equal(result.cpu(), torch.searchsorted(sequence, values, sorter=sorter))


def test_nan_and_infinities(device, no_fallback):
    boundaries = torch.tensor([-float("inf"), 0.0, 1.0, float("inf")])
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5] * 5)
    for right in (False, True):
        assert torch.equal(
            torch.searchsorted(boundaries.to(device), values.to(device), right=right).cpu(),
            torch.searchsorted(boundaries, values, right=right),
        )
