"""Embedding tables and bags: values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [1, 7, 64, 131])
def test_embedding(dtype, width, device):
    indices = torch.randint(0, 29, (5, 17))
    check(lambda w, i: F.embedding(i, w), torch.randn(31, width), indices, dtype=dtype)


@pytest.mark.parametrize(
    "options", [{"padding_idx": 3}, {"scale_grad_by_freq": True}, {"padding_idx": 0, "scale_grad_by_freq": True}]
)
def test_options(options, device):
    check(lambda w, i: F.embedding(i, w, **options), torch.randn(11, 20), torch.randint(0, 11, (4, 30)))


def test_int32_and_scalar_indices(device):
    check(lambda w, i: F.embedding(i, w), torch.randn(11, 20), torch.randint(0, 11, (13,), dtype=torch.int32))
    check(lambda w, i: F.embedding(i, w), torch.randn(11, 20), torch.tensor(4))


def test_renorm(device):
    w = torch.randn(9, 6) * 3
    expected, actual = w.clone(), w.to(device)
    i = torch.tensor([1, 1, 4])
    F.embedding(i, expected, max_norm=1.0)
    F.embedding(i.to(device), actual, max_norm=1.0)
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_bags(mode, padding_idx, device):
    indices, offsets = torch.randint(0, 13, (40,)), torch.tensor([0, 5, 5, 20, 39])
    check(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding_idx),
        torch.randn(13, 37),
        indices,
        offsets,
    )
    check(lambda w, i: F.embedding_bag(i, w, mode=mode), torch.randn(13, 37), indices.view(8, 5))


def test_bag_weights(device):
    indices, offsets = torch.randint(0, 13, (40,)), torch.tensor([0, 5, 5, 20, 40])
    check(
        lambda w, p, i, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p, include_last_offset=True),
        torch.randn(13, 37),
        torch.randn(40),
        indices,
        offsets,
    )


def test_index_outside_the_table_is_an_error(device):
    w = torch.randn(5, 4, device=device)
    with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
        F.embedding(torch.tensor([7], device=device), w).cpu()
    assert F.embedding(torch.tensor([4], device=device), w).shape == (1, 4)
