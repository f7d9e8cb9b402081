"""Resampling against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from layer_checks import check

CASES = [
    dict(scale_factor=2),
    dict(size=5),
    dict(size=17),
    dict(scale_factor=1.7),
    dict(scale_factor=1.7, recompute_scale_factor=True),
]
LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


@pytest.mark.parametrize("shape", [(2, 3, 11), (2, 3, 7, 11), (1, 2, 5, 6, 7)])
@pytest.mark.parametrize("arguments", CASES)
def test_modes(device, shape, arguments):
    x = torch.randn(shape)
    for mode in ("nearest", "nearest-exact"):
        check(lambda x: F.interpolate(x, mode=mode, **arguments), x, device=device)
    for align in (False, True):
        check(lambda x: F.interpolate(x, mode=LINEAR[x.dim()], align_corners=align, **arguments), x, device=device)
        if x.dim() == 4:
            check(lambda x: F.interpolate(x, mode="bicubic", align_corners=align, **arguments), x, device=device)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_types(device, dtype, mode):
    check(lambda x: F.interpolate(x, scale_factor=2, mode=mode), torch.randn(2, 3, 7, 11), device=device, dtype=dtype)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_channels_last(device, mode):
    check(
        lambda x: F.interpolate(x, size=(9, 23), mode=mode),
        torch.randn(2, 19, 7, 11).to(memory_format=torch.channels_last),
        device=device,
    )


def test_bytes(device):
    x = torch.randint(256, (1, 3, 6, 7), dtype=torch.uint8)
    actual = F.interpolate(x.to(device), scale_factor=2, mode="nearest")
    assert torch.equal(actual.cpu(), F.interpolate(x, scale_factor=2, mode="nearest"))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_interpolated_bytes_are_the_cpus(device, mode, antialias):
    for channels, size, options in (
        (3, (5, 9), {}),
        (3, (31, 7), dict(align_corners=True)),
        (6, (13, 40), {}),
        (1, (13, 23), {}),
        (2, (1, 2), {}),
    ):
        x = torch.randint(256, (2, channels, 13, 23), dtype=torch.uint8)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            here = x.contiguous(memory_format=memory_format)
            actual = F.interpolate(here.to(device), size=size, mode=mode, antialias=antialias, **options)
            assert torch.equal(actual.cpu(), F.interpolate(here, size=size, mode=mode, antialias=antialias, **options))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(device, mode):
    for size, options in (((5, 9), {}), ((31, 7), dict(align_corners=True)), ((3, 40), {})):
        check(
            lambda x: F.interpolate(x, size=size, mode=mode, antialias=True, **options),
            torch.randn(2, 3, 13, 23),
            device=device,
        )
    x = torch.randn(2, 19, 7, 11).to(memory_format=torch.channels_last)
    check(lambda x: F.interpolate(x, size=(3, 23), mode=mode, antialias=True), x, device=device)
