"""Element types that an operator does not have: NotImplementedError, as on the CPU, and the same opening of the text's
form ("name" not implemented for 'Bool')."""

import pytest
import torch
import torch.nn.functional as F

CALLS = {
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4).to(x.device), torch.ones(4).to(x.device)),
    "cholesky": torch.cholesky,
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, :3]),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0),
    "geometric": lambda x: x.clone().geometric_(0.5),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "log_normal": lambda x: x.clone().log_normal_(),
    "normal": lambda x: x.clone().normal_(),
}
REFUSED = [
    (name, dtype)
    for names, dtypes in (
        (("batch_norm", "cholesky", "layer_norm", "log_normal", "normal"), (torch.bool, torch.int64, torch.uint8)),
        (("cross",), (torch.bool,)),
        (("cummax", "cummin", "geometric", "log_normal"), (torch.complex64,)),
        (("cholesky",), (torch.float16,)),
    )
    for name in names
    for dtype in dtypes
]


@pytest.mark.parametrize(("name", "dtype"), REFUSED, ids=lambda part: str(part).removeprefix("torch."))
def test_a_type_without_kernels_is_not_implemented(name, dtype):
    x = torch.ones(4, 4).to(dtype)
    with pytest.raises(NotImplementedError):
        CALLS[name](x)
    with pytest.raises(NotImplementedError, match="\" not implemented for '"):
        CALLS[name](x.to("ocl"))
    torch.accelerator.synchronize()
