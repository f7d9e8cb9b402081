"""Products and convolutions of bfloat16: no further from float64 than twice the CPU's own error, with the processor's
products of pairs and without."""

import json

import pytest
import torch

from tests.python.ops.products import answer_of, errors

# images, channels, edge, outputs, kernel, stride: sums of odd length, several slabs, chunks across images, sub-grids of
# a stride, a stem
CONVOLUTIONS = [
    (3, 65, 13, 37, 1, 1), (2, 1037, 7, 24, 1, 1), (2, 48, 16, 40, 1, 2), (2, 31, 15, 33, 3, 2), (2, 32, 14, 64, 3, 2),
    (2, 17, 20, 18, 3, 1), (2, 3, 37, 16, 7, 2),
]  # fmt: skip
PRODUCTS = [(101, 77, 301), (33, 65, 801), (64, 300, 63)]


def check(found):
    wrong = {name: (ours, native) for name, (ours, native) in found.items() if not ours <= 2 * native}
    assert len(found) == len(CONVOLUTIONS) + len(PRODUCTS) and not wrong


def test_errors_are_the_cpus(device, no_fallback):
    check(errors(device, CONVOLUTIONS, PRODUCTS, torch.bfloat16))


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_with_and_without_the_processors_products(device, wanted):
    if not torch.ocl.get_device_properties().bfloat16_pairs:
        pytest.skip("the device has none: the other test ran without")
    answer = answer_of(__file__, TORCH_OCL_BFLOAT16_PAIRS=wanted)
    assert answer["preferred"] is (wanted == "1")
    check(answer["errors"])


def test_nan_stays_in_its_row(device, no_fallback):
    """The element behind an odd sum is another row's; the lane beside it in the pair must not matter."""
    a, b = torch.ones(40, 33), torch.ones(33, 50)
    a[7, 0] = float("nan")
    b[:, 3] = float("inf")
    result = (a.to(device, torch.bfloat16) @ b.to(device, torch.bfloat16)).cpu().float()
    assert torch.equal(result.nan_to_num(nan=-1.0), (a @ b).nan_to_num(nan=-1.0))


if __name__ == "__main__":
    import torch_ocl  # noqa: F401

    print(
        json.dumps(
            {
                "preferred": torch.ocl.get_device_properties().quick_bfloat16_pairs,
                "errors": errors("ocl", CONVOLUTIONS, PRODUCTS, torch.bfloat16),
            }
        )
    )
