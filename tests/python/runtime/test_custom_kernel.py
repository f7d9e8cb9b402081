"""torch.ocl.compile_kernel: kernels from source, called with tensors."""

import pytest
import torch

feature = pytest.mark.feature
pytestmark = feature("Kernels of one's own")

AXPY = """
// y += a * x
__kernel void axpy(__global const float* x, __global float* y, float a, long n) {
  for (long i = get_global_id(0); i < n; i += get_global_size(0)) y[i] += a * x[i];
}
"""
ROW_SUM = """
#define GROUP 16
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_sum(__global const float* x, __global float* y, int columns, __local float* scratch) {
  __local float last;  /* a kernel's own local variable as well */
  const int lane = get_local_id(0), row = get_group_id(0);
  float sum = 0;
  for (int c = lane; c < columns; c += GROUP) sum += x[row * columns + c];
  scratch[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) { float total = 0; for (int i = 0; i < GROUP; ++i) total += scratch[i]; last = total; }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == GROUP - 1) y[row] = last;
}
"""


def test_tensors_views_and_numbers(device):
    axpy = torch.ocl.compile_kernel(AXPY, "axpy")
    x, y = torch.rand(1000, device=device), torch.rand(1000, device=device)
    expected = y.cpu() + 2.5 * x.cpu()
    version = y._version
    axpy(x, y, 2.5, 1000)
    assert torch.allclose(y.cpu(), expected) and y._version > version and x._version == 0
    before = y.clone()
    axpy(x[5:15], y[7:17], -1, 10, global_size=4)  # storage offsets count
    before[7:17] -= x[5:15]
    assert torch.allclose(y, before)
    assert "axpy(__global const float* x" in repr(axpy)
    axpy(x[:0], y[:0], 1.0, 0)


def test_local_memory_and_work_groups(device):
    row_sum = torch.ocl.compile_kernel(ROW_SUM)
    x, y = torch.rand(7, 50, device=device), torch.empty(7, device=device)
    row_sum(x, y, 50, torch.ocl.LocalMemory(16 * 4), global_size=7 * 16, local_size=16)
    assert torch.allclose(y.cpu(), x.cpu().sum(1))


def test_vectors_types_macros_and_streams(device):
    source = """__kernel void k(__global float4* x, float2 a, __global const uchar *flags, ushort unused) {
        x[get_global_id(0)] = (float4)(a, (float)flags[0], SCALE);
    }"""
    kernel = torch.ocl.compile_kernel(source, defines={"SCALE": "3.0f"})
    x = torch.zeros(8, device=device)
    stream = torch.ocl.Stream()
    stream.wait_stream(torch.ocl.current_stream())  # for the zeros
    with torch.ocl.stream(stream):
        kernel(x, (1.0, 2.0), torch.tensor([True], device=device), 7, global_size=2)
        assert x.tolist() == [1, 2, 1, 3] * 2
    builds = torch.ocl.build_counts()
    torch.ocl.compile_kernel(source, defines={"SCALE": "3.0f"})
    assert torch.ocl.build_counts() == builds  # the same text is not built again


def test_kernels_that_call_kernels(device):
    """OpenCL C lets them, and a kernel that is called may be the one that is asked for."""
    source = """
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) // of both
void scale(__global float* y, __global const float* x, float by) {
  y[get_global_id(0)] = by * x[get_global_id(0)];
}
__kernel void twice(__global float* y, __global const float* x) { scale(y, x + 1, 2); }
"""
    x = torch.arange(9.0)
    for name, begin, arguments in (("twice", 0, ()), ("scale", 1, (2.0,))):
        y = torch.zeros(8, device=device)
        kernel = torch.ocl.compile_kernel(source, name)
        kernel(y, x.to(device)[begin:], *arguments, global_size=4, local_size=4)
        expected = torch.zeros(8)
        expected[:4] = 2 * x[1:5]
        torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=0)


def test_inside_autograd(device):
    source = """__kernel void square(__global const float* x, __global float* y) {
        size_t i = get_global_id(0);
        y[i] = x[i] * x[i];
    }
    kernel void gradient(global const float* x, global const float* g, global float* y) {
        size_t i = get_global_id(0);
        y[i] = 2 * x[i] * g[i];
    }"""
    square, gradient = (torch.ocl.compile_kernel(source, name) for name in ("square", "gradient"))

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            y = torch.empty_like(x)
            square(x, y)
            return y

        @staticmethod
        def backward(context, g):
            (x,) = context.saved_tensors
            y = torch.empty_like(x)
            gradient(x, g.contiguous(), y)
            return y

    x = torch.tensor([1.0, -3.0], device=device, requires_grad=True)
    (Square.apply(x) * 10).sum().backward()
    assert x.grad.tolist() == [20, -60]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (lambda x: (x, x, 1.0), TypeError, r"takes 4 arguments \(3 given\)"),
        (
            lambda x: (x.double(), x, 1.0, 1),
            TypeError,
            r"argument 1 \(__global const float\* x\) of kernel axpy: expected a tensor of torch.float32",
        ),
        (lambda x: (x, x.int(), 1.0, 1), TypeError, "argument 2"),
        (lambda x: (x, 1.0, 1.0, 1), TypeError, "expected a tensor, got float"),
        (lambda x: (x, x, "a", 1), TypeError, r"argument 3 \(float a\).*expected float, got str"),
        (lambda x: (x, x, 1.0, 2.5), TypeError, r"argument 4 \(long n\).*expected long, got float"),
        (lambda x: (x, x, 1.0, 2**70), ValueError, "argument 4"),
        (
            lambda x: (x[::2], x, 1.0, 1),
            ValueError,
            r"expected a contiguous tensor, got sizes \(4,\) with strides \(2,\)",
        ),
        (lambda x: (x, x.cpu(), 1.0, 1), RuntimeError, "same ocl device, but found ocl:0 and cpu"),
        (lambda x: (x.cpu(), x, 1.0, 1), RuntimeError, "first tensor is on cpu"),
        (lambda x: (x, x.clone().requires_grad_(), 1.0, 1), RuntimeError, "requires grad"),
    ],
)
def test_wrong_arguments(device, arguments, kind, text):
    axpy = torch.ocl.compile_kernel(AXPY)
    with pytest.raises(kind, match=text):
        axpy(*arguments(torch.ones(8, device=device)))


def test_wrong_sources_and_ranges(device):
    with pytest.raises(ValueError, match="no kernel 'other' in the source; it has axpy"):
        torch.ocl.compile_kernel(AXPY, "other")
    with pytest.raises(ValueError, match="no `__kernel void name"):
        torch.ocl.compile_kernel("void f() {}")
    with pytest.raises(RuntimeError, match=r"(?s)did not compile.*undeclared_name"):
        torch.ocl.compile_kernel("__kernel void f(__global float* x) { x[0] = undeclared_name; }")
    with pytest.raises(ValueError, match="type that cannot be passed"):
        torch.ocl.compile_kernel("__kernel void f(image2d_t x) {}")
    axpy, x = torch.ocl.compile_kernel(AXPY), torch.ones(8, device=device)
    for sizes in (
        {"global_size": (1, 1, 1, 1)},
        {"global_size": -1},
        {"global_size": 8, "local_size": 3},
        {"global_size": (8, 1), "local_size": 8},
    ):
        with pytest.raises(ValueError, match="global_size"):
            axpy(x, x, 1.0, 8, **sizes)
    assert x.tolist() == [1] * 8
