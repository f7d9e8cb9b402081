"""Packed products and convolutions with the register tile of AVX-512 and with that of narrower registers, each forced:
no further from float64 than four times the CPU's own error."""

import json

import pytest
import torch

from tests.python.ops.products import answer_of, errors

# images, channels, edge, outputs, kernel, stride: Winograd and its gradients, plain and strided pointwise, gathered,
# edges of tiles
CONVOLUTIONS = [
    (2, 40, 21, 33, 3, 1),
    (3, 65, 13, 37, 1, 1),
    (2, 48, 16, 40, 1, 2),
    (2, 31, 15, 33, 3, 2),
    (2, 24, 17, 50, 5, 1),
]
PRODUCTS = [(101, 77, 301), (33, 16, 801), (520, 330, 600)]


@pytest.mark.parametrize("floats", [8, 16])
def test_both_forms(device, floats):
    if torch.ocl.get_device_properties().style != "cpu":
        pytest.skip("CPU-style kernels only")
    answer = answer_of(__file__, TORCH_OCL_VECTOR_FLOATS=str(floats))
    assert answer["vector_floats"] == floats
    wrong = {
        name: (ours, native) for name, (ours, native) in answer["errors"].items() if not ours <= max(4 * native, 1e-6)
    }
    assert len(answer["errors"]) == len(CONVOLUTIONS) + len(PRODUCTS) and not wrong


if __name__ == "__main__":
    import torch_ocl  # noqa: F401

    print(
        json.dumps(
            {
                "vector_floats": torch.ocl.get_device_properties().vector_floats,
                "errors": errors("ocl", CONVOLUTIONS, PRODUCTS, torch.float32),
            }
        )
    )
