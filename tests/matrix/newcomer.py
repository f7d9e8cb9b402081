"""What a newcomer does first, each as a process of its own: `python tests/matrix/newcomer.py NAME`.

tools/matrix.py runs them in bare environments, where the process's exit status counts as well. The CPU's float32
results, of the same start, are what they are compared with.
"""

import sys

import torch
from torch import nn


def product() -> None:
    """One matrix product: the sum of 300 x 300 entries of 300 each."""
    ones = torch.ones(300, 300, device="ocl")
    assert (ones @ ones).sum().item() == 300**3


def network() -> nn.Module:
    """[N, 3, 24, 24] -> [N, 10]. Without a bias before the normalisation: its gradient is zero but for rounding, which
    AdamW would scale up to whole steps."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def training() -> None:
    """Five steps of SGD and of AdamW give the CPU's parameters, and no operator ran on the CPU."""
    images, labels = torch.randn(8, 3, 24, 24), torch.arange(8)
    for make in (lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.AdamW(p, 1e-3)):
        on_cpu, on_device = network(), network()
        on_device.load_state_dict(on_cpu.state_dict())
        on_device.to("ocl")
        for model, device in ((on_cpu, "cpu"), (on_device, "ocl")):
            optimizer = make(model.parameters())
            for _ in range(5):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
        for expected, actual in zip(on_cpu.parameters(), on_device.parameters()):
            assert actual.device.type == "ocl"
            torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert not torch.ocl.fallbacks(), torch.ocl.fallbacks()


def exception() -> None:
    """An error leaves the process usable."""
    try:
        torch.ones(2, device="ocl") @ torch.ones(3, device="ocl")
    except RuntimeError:
        pass
    else:
        raise AssertionError("a product of 2 and 3 elements is an error")
    assert torch.ones(3, device="ocl").sum().item() == 3


def versions() -> None:
    """Device, driver, torch and Python, a line each: what a row of the table says."""
    facts = torch.ocl.get_device_properties(0)
    print(facts.platform_name, facts.driver_version, sep="\t")
    print(torch.__version__)
    print(".".join(map(str, sys.version_info[:3])))


if __name__ == "__main__":
    import torch_ocl  # noqa: F401  also where another accelerator keeps torch from loading it

    torch.manual_seed(0)
    {each.__name__: each for each in (product, training, exception, versions)}[sys.argv[1]]()
