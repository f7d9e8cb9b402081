"""Products and convolutions on tensor cores, emulated where the device has none: float32 is as exact as on the CPU
unless TF32 is allowed."""

import json
import sys

import pytest
import torch

from tests.python.ops.products import answer_of, errors

# images, channels, edge, outputs, kernel, stride: whole chunks of channels and odd ones, 1x1 per image, a stride
CONVOLUTIONS = [(2, 32, 12, 24, 3, 1), (1, 5, 9, 20, 3, 2), (2, 48, 12, 32, 1, 1)]
PRODUCTS = [(96, 72, 128), (65, 33, 77)]
# Of an element's 24 bits TF32 has 11.
EXACT, TF32 = 2e-6, (1e-4, 2e-3)


@pytest.fixture(scope="module", params=["by warps", "by warpgroups"])
def answer(request):
    facts = torch.ocl.get_device_properties()
    warps = request.param == "by warps"
    if facts.is_gpu:
        if not facts.tensor_cores:
            pytest.skip("the device has none")
        return answer_of(__file__, TORCH_OCL_TENSOR_CORES="mma" if warps else "1")
    if facts.platform_name == "Portable Computing Language":
        pytest.skip("PoCL takes minutes to compile work-groups with barriers in loops")
    return answer_of(
        __file__, TORCH_OCL_TENSOR_CORES="emulate" if warps else "emulate_warpgroups", TORCH_OCL_KERNEL_STYLE="gpu"
    )


def test_they_are_used(answer):
    assert answer["tensor_cores"] is True


def test_float32_is_exact(answer):
    assert {name: ours for name, (ours, _) in answer["exact"].items() if not ours < EXACT} == {}


@pytest.mark.parametrize("switch", ["switch", "precision"])
def test_tf32_where_it_is_allowed(answer, switch):
    """The switch of this backend is for both, PyTorch's matmul precision for products."""
    for name, (ours, _) in answer[switch].items():
        rounded = switch == "switch" or name.startswith("mm")
        assert TF32[0] < ours < TF32[1] if rounded else ours < EXACT, (name, ours)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_no_worse_than_the_cpu(answer, dtype):
    assert {name: pair for name, pair in answer[dtype].items() if not pair[0] <= 2 * pair[1]} == {}


def test_infinities_and_nan(answer):
    assert answer["special"] == ["inf", "-inf", "nan", "nan"]


def special():
    """inf * 2, inf * -2, inf - inf, nan."""
    a = torch.zeros(64, 64)
    a[0, 0], a[1, 0] = float("inf"), float("-inf")
    a[2, 0] = a[2, 1] = float("inf")
    a[3, 5] = float("nan")
    b = torch.full((64, 64), 2.0)
    b[1] = -2
    result = (a.to("ocl") @ b.to("ocl")).cpu()
    assert result[4:].eq(0).all()
    return [str(result[row, 7].item()) for row in range(4)]


if __name__ == "__main__":
    import torch_ocl  # noqa: F401

    found = {"tensor_cores": torch.ocl.get_device_properties().tensor_cores, "special": special()}
    found["exact"] = errors("ocl", CONVOLUTIONS, PRODUCTS, torch.float32)
    with torch.backends.ocl.flags(allow_tf32=True):
        found["switch"] = errors("ocl", CONVOLUTIONS, PRODUCTS, torch.float32)
    torch.set_float32_matmul_precision("high")
    found["precision"] = errors("ocl", CONVOLUTIONS, PRODUCTS, torch.float32)
    torch.set_float32_matmul_precision("highest")
    for dtype in (torch.bfloat16, torch.float16):
        found[str(dtype).split(".")[1]] = errors("ocl", CONVOLUTIONS, PRODUCTS, dtype)
    json.dump(found, sys.stdout)
