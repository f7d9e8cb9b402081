"""torch._inductor.config.freezing, and modes that measure: results, and what is folded."""

import copy

import pytest
import torch
from torch import nn
from torch._inductor.utils import run_and_get_code

from .comparison import TOLERANCE, same

pytestmark = pytest.mark.feature("Inductor")


class Network(nn.Module):
    """Norms behind convolutions with and without a bias, a constant that is computed from weights, linear layers of
    one input."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))
        self.heads = nn.ModuleList(nn.Linear(8, 5) for _ in range(3))
        for norm in self.norms:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.normal_(norm.bias)

    def forward(self, x):
        y = self.norms[1](self.second(self.norms[0](self.first(x)).relu())).mean((2, 3))
        scale = self.heads[0].weight.square().sum().sqrt()
        return self.heads[0](y) * scale + self.heads[1](y) * self.heads[2](y)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network().eval()


def between_frames(code):
    return code[0][code[0].index("def call(") :]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "channels_last"])
def test_norms_are_folded_into_convolutions(device, network, dtype, layout):
    x = torch.randn(2, 3, 12, 12).to(memory_format=layout)
    there = copy.deepcopy(network).to(device, dtype)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled = torch.compile(there)
        actual, code = run_and_get_code(compiled, x.to(device, dtype))
        again = compiled(x.to(device, dtype))
    bound = 8 * TOLERANCE[dtype]  # the sum of some ten terms of size 1 and a product of two such
    for result in (actual, again):
        assert result.device.type == "ocl" and result.dtype == dtype
        torch.testing.assert_close(result.cpu().float(), network(x), rtol=bound, atol=bound)
    text = between_frames(code)
    assert "_frozen_param" in text and torch.ocl.fallbacks() == {}
    # neither of the norms nor of the constant is anything left that is computed
    assert not any("sqrt(" in line for line in code[0].splitlines() if not line.lstrip().startswith("#"))


def test_other_sizes_of_a_frozen_network_compile_nothing(device, network):
    there = copy.deepcopy(network).to(device)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled = torch.compile(there, dynamic=True)
        for rows in (2, 3, 7):
            x = torch.randn(rows, 3, 12, 12)
            with torch._dynamo.config.patch(error_on_recompile=rows > 2):
                torch.testing.assert_close(compiled(x.to(device)).cpu(), network(x), rtol=2e-4, atol=2e-4)
    assert torch.ocl.fallbacks() == {}


def test_a_network_that_is_replaced_is_frozen_anew(device, network):
    x = torch.randn(2, 3, 12, 12)
    there = copy.deepcopy(network).to(device)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled = torch.compile(there)
        compiled(x.to(device))
        for module in (network, there):
            module.heads[1].weight = nn.Parameter(torch.full_like(module.heads[1].weight, 0.5))
        torch.testing.assert_close(compiled(x.to(device)).cpu(), network(x), rtol=2e-4, atol=2e-4)


def test_the_option_of_one_call_is_right(device, network):
    """Dynamo reads torch._inductor.config alone, so it folds nothing, as on other devices."""
    x = torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        actual = torch.compile(copy.deepcopy(network).to(device), options={"freezing": True})(x.to(device))
    torch.testing.assert_close(actual.cpu(), network(x), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_that_measure(device, mode):
    """Products of all kinds, a convolution, and their gradients."""
    convolution = nn.Conv2d(3, 4, 3)

    def step(x, a, b):
        y = convolution(x).relu().flatten(1) @ a
        return torch.bmm(y[None].expand(3, -1, -1), b).softmax(-1), torch.baddbmm(b[:, :1], b, b.transpose(1, 2)[:, :6])

    inputs = torch.randn(2, 3, 5, 5), torch.randn(36, 6), torch.randn(3, 6, 6)
    results = []
    for function, place in ((step, "cpu"), (torch.compile(step, mode=mode), device)):
        convolution.to(place)
        convolution.zero_grad()
        for _ in range(3):  # with max-autotune: as it is, captured, replayed
            values = [value.to(place).clone().requires_grad_() for value in inputs]
            outputs = function(*values)
            sum(output.square().sum() for output in outputs).backward()
        results.append([*outputs, *(value.grad for value in values), convolution.weight.grad.clone()])
    expected, actual = results
    for a, e in zip(actual, expected, strict=True):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu(), e, rtol=2e-4, atol=2e-4)
    assert torch.ocl.fallbacks() == {}
    same(actual[0].detach(), expected[0].detach())
