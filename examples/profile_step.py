"""Where the time of a training step goes: torch.profiler's table of operators and kernels, and a trace for
chrome://tracing or Perfetto.

python examples/profile_step.py [--trace trace.json]
"""

import argparse

import torch
from torch.profiler import ProfilerActivity, profile, record_function


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--trace", help="file for the trace")
    parser.add_argument("--size", type=int, default=64, help="width and height of the images")
    options = parser.parse_args()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(32 * (options.size // 4) ** 2, 10),
    ).to(options.device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = (
        torch.rand(16, 3, options.size, options.size, device=options.device),
        torch.arange(16, device=options.device) % 10,
    )

    def step():
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    step()  # programs are compiled here
    torch.accelerator.synchronize()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], profile_memory=True, record_shapes=True
    ) as result:
        for _ in range(3):
            step()
    print(result.key_averages().table(sort_by="self_device_time_total", row_limit=15, max_name_column_width=40))
    if options.trace:
        result.export_chrome_trace(options.trace)
        print(f"trace: {options.trace}")


if __name__ == "__main__":
    main()
