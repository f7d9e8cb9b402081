"""Generated documents and the layer rule are up to date."""

import subprocess
import sys

from conftest import ROOT


def test_environment_table_is_current():
    table = subprocess.run(
        [sys.executable, "-m", "torch_ocl", "environment"], capture_output=True, text=True, check=True
    ).stdout
    assert table.strip() in (ROOT / "docs" / "generated" / "environment.md").read_text(), (
        "run: python tools/generate_docs.py"
    )


def test_accelerator_table_is_current():
    sys.path.insert(0, str(ROOT / "tools"))
    import accelerator_table

    assert list(accelerator_table.problems()) == []
    assert accelerator_table.document() == (ROOT / "docs" / "generated" / "accelerator.md").read_text(), (
        "run: python tools/generate_docs.py"
    )


def test_layers():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "check_layers.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
