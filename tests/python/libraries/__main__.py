"""python -m tests.python.libraries [--install FOLDER] [--write-docs]: runs every program, of the libraries that are
installed; writes docs/generated/libraries.md."""

import argparse
import datetime
import subprocess
import sys
import warnings
from pathlib import Path

import torch

import torch_ocl

from . import programs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "generated" / "libraries.md"
HEAD = """# Libraries

Small programs, each run on `ocl` and on the CPU; the results agree up to the rounding of their sums. Written by
`python -m tests.python.libraries --install build/libraries --write-docs`;
[the tests](../contribute/testing.md) run the same programs, as far as the libraries are installed. Rows without a
library are written as the code of that library is, without it. Whole models of libraries:
[what is tested](../use/tested.md).
"""


def install(folder):
    """The libraries of requirements.txt into a folder of their own, which imports find last: nothing of the environment
    changes. Without what they depend on, because most name a torch; the file has all that the programs need."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    subprocess.run([*pip, "-r", str(Path(__file__).with_name("requirements.txt"))], check=True)


def row(one):
    """A row of the table, and whether the program failed."""
    versions = ", ".join(f"{name} {programs.version(name)}" for name in one.libraries) or "none"
    try:
        report = programs.check(one)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        return f"| {one.name} | {versions} | {one.what} | {text} |", True
    result = "; ".join(report.failures) or "as on the CPU"
    if report.fallbacks:
        result += f"; on the CPU: {', '.join(report.fallbacks)}"
    return f"| {one.name} | {versions} | {one.what} | {result} |", bool(report.failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="programs whose name contains one of them")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--install", metavar="FOLDER", help="install the libraries there, if that is not done")
    options = parser.parse_args()
    if options.install:
        if not Path(options.install).exists():
            install(options.install)
        sys.path.append(options.install)
    warnings.simplefilter("ignore")
    torch.ocl.set_fallback_policy("silent")
    rows, failed, missing = [], [], []
    for one in programs.load():
        if options.words and not any(word in one.name for word in options.words):
            continue
        if one.missing:
            missing += one.missing
            continue
        text, wrong = row(one)
        rows.append(text)
        failed += [one.name] * wrong
        print(text, flush=True)
    if options.write_docs:
        facts = torch.ocl.get_device_properties(0)
        made = (
            f"\n{datetime.date.today()}, torch_ocl {torch_ocl.__version__}, torch {torch.__version__}, "
            f"{facts.platform_name} ({facts.style} kernels)\n\n"
            "| program | library | what is run | result |\n|---|---|---|---|\n"
        )
        PAGE.write_text(HEAD + made + "\n".join(rows) + "\n")
    if missing:
        print("not installed:", *sorted(set(missing)))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
