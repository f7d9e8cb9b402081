"""Starts scripts under torchrun."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "python"
NOT_INHERITED = ("TORCH_OCL_HOST_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def torchrun(script, *arguments, ranks=2, options=(), seconds=240, **environment):
    """A subprocess.CompletedProcess of `torchrun script arguments`: standard output and errors as text."""
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)),
            *(*options, str(script), *arguments),
        ],
        env=inherited | {"PYTHONPATH": str(PACKAGE)} | environment,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def write(folder, code):
    path = Path(folder) / "script.py"
    path.write_text(code)
    return path
