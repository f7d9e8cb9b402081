"""Tensors of more than 2^31 elements.

Each takes some gigabytes: marked full, and skipped where the device has less memory.
"""

import pytest
import torch

ELEMENTS = 2**31 + 4097
NEEDED = 10 * 2**30


@pytest.fixture
def large(device):
    free, _ = torch.ocl.mem_get_info()
    if free < NEEDED:
        pytest.skip(f"{free / 2**30:.1f} GiB of device memory are free, {NEEDED / 2**30:.0f} are needed")
    x = torch.zeros(ELEMENTS, dtype=torch.int8, device=device)
    yield x
    del x
    torch.ocl.empty_cache()


@pytest.mark.full
def test_elements_beyond_2_31(large, no_fallback):
    large[-1] = 7
    large[2**31 + 5] = 3
    assert large[-1].item() == 7
    assert large.sum().item() == 10
    assert large.argmax().item() == ELEMENTS - 1
    large += 1
    assert large.sum(dtype=torch.int64).item() == ELEMENTS + 10


@pytest.mark.full
def test_strided_views_beyond_2_31(large, no_fallback):
    odd = large[1::2]
    odd.fill_(1)
    assert large.sum().item() == ELEMENTS // 2
    rows = large.narrow(0, 0, 2**31).view(2**16, 2**15)
    columns = rows.t()[::512]
    columns.copy_(torch.full((1, 1), 5, dtype=torch.int8, device=large.device).expand_as(columns))
    assert rows[-1, 512].item() == 5
    assert rows[:, 512].sum().item() == 5 * 2**16
    tail = large[2**31 :]
    torch.testing.assert_close(tail.cpu(), torch.arange(4097, dtype=torch.int64).remainder(2).to(torch.int8))


@pytest.mark.full
def test_expanded_element(device, no_fallback):
    one = torch.ones((), dtype=torch.int8, device=device)
    assert one.expand(ELEMENTS).sum().item() == ELEMENTS
    assert one.expand(2**16, 2**15 + 1).sum(0).sum().item() == 2**16 * (2**15 + 1)


@pytest.mark.full
def test_indices_beyond_2_31(large, no_fallback):
    at = torch.tensor([0, 2**31 - 1, 2**31, ELEMENTS - 1], device=large.device)
    large[at] = torch.tensor([1, 2, 3, 4], dtype=torch.int8, device=large.device)
    assert large[at].tolist() == [1, 2, 3, 4]
    assert large.take(at).tolist() == [1, 2, 3, 4]
    assert large.index_select(0, at).tolist() == [1, 2, 3, 4]
    assert large.nonzero().flatten().tolist() == at.tolist()
