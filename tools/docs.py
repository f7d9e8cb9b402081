"""`./run docs`: the documentation site in build/site. A warning of MkDocs or Doxygen is an error.

The Python reference is read from the sources by mkdocstrings, so nothing has to be built. The C++ reference is
Doxygen's; where that program is missing (./run docs installs it as root) the site has none, which is said.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-docs"
REQUIREMENTS = ROOT / "tools" / "docs_requirements.txt"
SITE = ROOT / "build" / "site"


def run(*command: str) -> None:
    """Runs a program in the root of the tree; ends this one when it fails."""
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command[:4])} ...")


def install() -> None:
    """Makes .venv-docs, or brings it up to date with the requirements. Needs the pip of the running interpreter."""
    wanted, stamp = REQUIREMENTS.read_text(), ENVIRONMENT / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing MkDocs into .venv-docs", flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(sys.executable, "-m", "venv", "--without-pip", str(ENVIRONMENT))
    run(*pip, "--python", str(ENVIRONMENT / "bin" / "python"), "install", "-q", "-r", str(REQUIREMENTS))
    stamp.write_text(wanted)


def main() -> int:
    install()
    run(str(ENVIRONMENT / "bin" / "mkdocs"), "build", "--strict", "--quiet")
    if shutil.which("doxygen"):
        (ROOT / "build" / "doxygen").mkdir(parents=True, exist_ok=True)
        run("doxygen", "docs/Doxyfile")
        shutil.copytree(ROOT / "build" / "doxygen" / "html", SITE / "cpp", dirs_exist_ok=True)
    else:
        print("doxygen is missing: the site is without the C++ reference")
    print(f"site: {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
