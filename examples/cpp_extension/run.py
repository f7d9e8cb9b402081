"""Builds the C++ operator of this folder against the installed torch_ocl and calls it.

python examples/cpp_extension/run.py
"""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_ocl


def main():
    folder = Path(__file__).parent
    # torch_ocl is in the process already: the library links to nothing of it.
    load(
        "squared_relu_cpp",
        [str(folder / "squared_relu.cpp")],
        extra_include_paths=[torch_ocl.include_path()],
        extra_cflags=["-O1"],
        is_python_module=False,
    )
    x = torch.randn(5, 7, device="ocl")
    y = torch.ops.examples.squared_relu_cpp(x[1:])  # a view: its storage offset counts
    print("agree" if torch.equal(y.cpu(), x.cpu()[1:].relu().square()) else "DISAGREE")
    try:
        torch.ops.examples.squared_relu_cpp(x.half())
    except RuntimeError as error:
        print(str(error).splitlines()[0])


if __name__ == "__main__":
    main()
