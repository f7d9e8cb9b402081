"""Generated documents and the layer rule are up to date."""

import subprocess
import sys

import pytest

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


def test_onnx_table_is_current():
    onnx = pytest.importorskip("onnx")
    sys.path.insert(0, str(ROOT / "tools"))
    import generate_docs

    written = (ROOT / "docs" / "generated" / "onnx.md").read_text()
    if f"schemas of onnx\n{onnx.__version__};" not in written:
        pytest.skip("the table was generated with another version of onnx, which knows other operators")
    assert generate_docs.onnx_document() == written, "run: python tools/generate_docs.py"


def test_layers():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "check_layers.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_readme_shows_the_measurements():
    sys.path.insert(0, str(ROOT / "tools"))
    import landing_page

    assert landing_page.readme() == (ROOT / "README.md").read_text(), "run: python tools/landing_page.py"
    assert landing_page.picture() == (ROOT / "docs" / "generated" / "networks.svg").read_text(), (
        "run: python tools/landing_page.py"
    )


def test_links_lead_somewhere():
    """Every relative link of every page, headings included."""
    sys.path.insert(0, str(ROOT / "tools"))
    import check_links

    pages = check_links.pages(ROOT)
    assert len(pages) > 20
    assert check_links.broken(pages) == []


def test_broken_links_are_found(tmp_path):
    sys.path.insert(0, str(ROOT / "tools"))
    import check_links

    page = tmp_path / "page.md"
    page.write_text(
        "# A heading: `code`, and more\n\n## Again\n\n## Again\n\n"
        "[a](page.md) [b](#a-heading-code-and-more) [c](#again-1)\n"
        "[d](none.md) [e](page.md#none) ![f](none.png) [g](https://example.org/none) `[h](none)`\n\n"
        "```\n[i](none)\n```\n"
    )
    assert [link for _, _, link in check_links.broken([page])] == ["none.md", "page.md#none", "none.png"]
