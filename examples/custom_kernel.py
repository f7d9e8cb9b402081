"""An operator of one's own in OpenCL C, with its derivative, in a network: torch.ocl.compile_kernel and torch.library.

    python examples/custom_kernel.py

The operator is squared ReLU, max(x, 0)^2. The same in C++ is in examples/cpp_extension.
"""

import argparse

import torch

SOURCE = """
__kernel void forward(__global const float* x, __global float* y) {
  const long i = get_global_id(0);
  const float v = fmax(x[i], 0.0f);
  y[i] = v * v;
}
__kernel void backward(__global const float* x, __global const float* dy, __global float* dx) {
  const long i = get_global_id(0);
  dx[i] = 2.0f * fmax(x[i], 0.0f) * dy[i];
}
"""


@torch.library.custom_op("examples::squared_relu", mutates_args=(), device_types="cpu")
def squared_relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu().square()


@torch.library.custom_op("examples::squared_relu_backward", mutates_args=(), device_types="cpu")
def squared_relu_backward(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return 2 * x.relu() * dy


def register(device):
    """Gives both operators kernels on `device`, and the derivative on every device."""
    forward, backward = (torch.ocl.compile_kernel(SOURCE, name) for name in ("forward", "backward"))

    @squared_relu.register_kernel(device)
    def _(x):
        x = x.contiguous()
        y = torch.empty_like(x)
        forward(x, y)
        return y

    @squared_relu_backward.register_kernel(device)
    def _(x, dy):
        x, dy = x.contiguous(), dy.contiguous()
        dx = torch.empty_like(x)
        backward(x, dy, dx)
        return dx

    squared_relu.register_fake(torch.empty_like)
    squared_relu_backward.register_fake(lambda x, dy: torch.empty_like(x))
    squared_relu.register_autograd(
        lambda ctx, dy: squared_relu_backward(*ctx.saved_tensors, dy),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )


def train(device, steps):
    torch.manual_seed(0)
    first, second = torch.nn.Linear(8, 32).to(device), torch.nn.Linear(32, 1).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 0.01)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.rand(64, 8, generator=generator).to(device)
        loss = (second(squared_relu(first(x))) - x.sum(1, keepdim=True).sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    register("ocl")
    losses = {device: train(device, options.steps) for device in ("ocl", "cpu")}
    print(", ".join(f"{device}: loss {loss:.6f}" for device, loss in losses.items()))
    print("agree" if abs(losses["ocl"] - losses["cpu"]) < 1e-4 * max(1, losses["cpu"]) else "DISAGREE")


if __name__ == "__main__":
    main()
