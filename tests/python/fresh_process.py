"""Programs in an interpreter of their own, which the package of this tree serves."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"


def run(*arguments, without: Collection[str] = (), processors: Collection[int] = (), **variables):
    """Standard output and standard error of Python with these arguments; AssertionError where it fails.

    without: environment variables that are not inherited; `variables` are set. processors: those it may run on.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in without}
    command = [sys.executable, *arguments]
    if processors:
        command = ["taskset", "-c", ",".join(map(str, processors)), *command]
    done = subprocess.run(
        command,
        env=inherited | {"PYTHONPATH": str(PACKAGE)} | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip(), done.stderr
