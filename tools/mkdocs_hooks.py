"""What MkDocs does beside its plugins, for `./run docs`.

Documents link to files of the tree, because they are also read there. The site has no such files: a link that leaves
docs/ becomes the name of the file. A link to a file that does not exist is a warning, which ends a strict build.
"""

import logging
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Documents of the root that are pages of the site as well.
PAGES = {"CONTRIBUTING.md": "contribute/index.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.links")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the documents of the root, unless docs/ has a page of that name."""
    for source, page in PAGES.items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def folder_of(page: Page) -> Path:
    """Folder in the tree that the links of a page start from."""
    sources = {target: source for source, target in PAGES.items()}
    if page.file.src_uri in sources and page.file.generated_by:
        return ROOT
    return ROOT / "docs" / Path(page.file.src_uri).parent


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replaces the links that leave docs/."""
    folder = folder_of(page)

    def replace(match: re.Match[str]) -> str:
        target = match["target"]
        if ":" in target or target.startswith("/"):
            return match[0]
        file = (folder / target).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            log.warning("%s: link to %s, which does not exist", page.file.src_uri, target)
            return match[0]
        name = file.relative_to(ROOT).as_posix()
        if name in PAGES:
            name = "docs/" + PAGES[name]
        if name.startswith("docs/") and file != ROOT / "docs" and not file.is_dir():
            up = "../" * page.file.src_uri.count("/")
            return f"[{match['text']}]({up}{name.removeprefix('docs/')}{match['anchor'] or ''})"
        text = match["text"]
        return text if name in text.replace("`", "") else f"{text} (`{name}`)"

    return LINK.sub(replace, markdown)
