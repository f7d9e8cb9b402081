"""Composite operators of PyTorch that read elements on the host wait for the queue. Each is called with work in the
queue that its argument comes from."""

import os
import subprocess
import sys

import pytest
import torch

BUSY = 400  # products of this size run for milliseconds; the host would not wait for them


def behind_work(value, device):
    """`value` on the device, written by the last of a few commands that take long. The memory holds zeros before."""
    a = torch.randn(BUSY, BUSY, device=device)
    result = torch.zeros(value.shape, dtype=value.dtype, device=device)
    ready = value.to(device)
    for products in (1, 12):  # the first round builds the kernels
        result.zero_()
        torch.ocl.synchronize()
        for _ in range(products):
            a = a @ a
            a = a / a.norm()
        one = (a.sum() * 0 + 1).to(value.dtype)
        result.copy_(ready * one)
    return result


def sobol_state(dimension=3):
    state = torch.zeros(dimension, 30, dtype=torch.int64)
    return torch._sobol_engine_initialize_state_(state, dimension)


CALLS = {
    "choose_qparams": (lambda x: torch.choose_qparams_optimized(x, 1200, 10, 0.16, 8),
                       lambda: torch.linspace(-2, 3, 1200)),
    "saturate": (torch._saturate_weight_to_fp16, lambda: torch.linspace(-1e6, 1e6, 500).view(25, 20)),
    "sobol_draw": (lambda x: torch._sobol_engine_draw(x, 5, sobol_state().to(x.device), 3, 1, torch.float32),
                   lambda: torch.tensor([5, 6, 7])),
    "sobol_ff": (lambda x: torch._sobol_engine_ff_(x, 5, sobol_state().to(x.device), 3, 0),
                 lambda: torch.tensor([5, 6, 7])),
    "sobol_scramble": (lambda x: torch._sobol_engine_scramble_(x, torch.ones(3, 30, 30, dtype=torch.int64,
                                                               device=x.device).tril(), 3), sobol_state),
    "quantize_weight": (lambda x: torch.fbgemm_linear_quantize_weight(x)[:2],
                        lambda: torch.linspace(-2, 3, 64).view(8, 8)),
}  # fmt: skip


def same(actual, expected):
    if isinstance(expected, (tuple, list)):
        for a, e in zip(actual, expected):
            same(a, e)
        return
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_waits_for_the_queue(name, device):
    call, make = CALLS[name]
    expected = call(make())
    shown = 0
    for _ in range(30):  # on a busy machine the host may be stopped until the queue is empty
        argument = behind_work(make(), device)
        shown += not torch.ocl.current_stream().query()
        same(call(argument), expected)
        if shown == 3:
            return
    assert shown, "the queue must be busy, or this test shows nothing"


@pytest.mark.parametrize("name", CALLS)
def test_memory_that_the_host_cannot_read(name):
    program = (
        "import torch, torch_ocl, warnings; warnings.simplefilter('ignore')\n"
        "from tests.python.ops.test_read_on_host import CALLS, same\n"
        f"call, make = CALLS[{name!r}]\n"
        "same(call(make().to('ocl')), call(make()))\n"
    )
    environment = dict(os.environ, TORCH_OCL_UNIFIED_MEMORY="0")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
