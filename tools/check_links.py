"""Relative links in *.md lead to files and headings that exist: `python tools/check_links.py`."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages(root):
    """All Markdown files of the tree that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return [root / name for name in names if (root / name).exists()]


@cache
def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return found


def broken(pages):
    """(page, line number, link) of every relative link that leads nowhere."""
    wrong = []
    for page in pages:
        text = FENCED.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(CODE.sub("", line)):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                    wrong.append((page, number, link))
    return wrong


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    found = broken(pages(root))
    for page, number, link in found:
        print(f"{page.relative_to(root)}:{number}: {link}")
    sys.exit(bool(found))
