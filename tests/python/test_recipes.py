"""The recipes of docs/contribute/recipes.md work: applied to a copy of the tree, built, and used as they say.

The page is the program here. A fenced block whose title is a path is a new file; with "after `text`" or "before `text`"
it is inserted beside the one line that contains the text; "check" is Python that must end well, and "expect ..." must
appear in what the check above it printed.

Only with --build: all recipes are built at once, with the settings of the tree's own build, so that ccache has what
they do not touch. Without ccache it compiles the whole backend (minutes).
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from conftest import ROOT

PAGE = ROOT / "docs" / "contribute" / "recipes.md"
COPY = ROOT / "build" / "recipes" / "tree"  # kept: a second run builds only what changed
FENCE = re.compile(r'^```(\w+) title="([^"\n]*)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"^(?P<path>[\w./]+)(?:: (?P<side>after|before) `(?P<anchor>.+)`)?$")


@dataclass
class Block:
    recipe: str
    title: str
    text: str


def blocks(page):
    """All titled blocks of the page, each with the heading that it stands under."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading = section.splitlines()[0]
        found += [Block(heading, title, text) for _, title, text in FENCE.findall(section)]
    return found


def edits():
    return [block for block in blocks(PAGE.read_text()) if not block.title.startswith(("check", "expect"))]


def checks():
    """(recipe, environment, program, [text that it must print]) for every check of the page."""
    found = []
    for block in blocks(PAGE.read_text()):
        if block.title.startswith("check"):
            variables = dict(word.split("=", 1) for word in block.title.removeprefix("check").lstrip(": ").split())
            found.append((block.recipe, variables, block.text, []))
        elif block.title.startswith("expect"):
            found[-1][3].append(block.text.strip())
    return found


def apply(block, read, write):
    """Applies one block; `read` and `write` take paths inside the tree. Errors: ValueError for a place that is not
    there."""
    place = PLACE.match(block.title)
    if not place:
        raise ValueError(f"{block.recipe}: a block's title is no place: {block.title}")
    path, side, anchor = place["path"], place["side"], place["anchor"]
    if side is None:
        if read(path) is not None:
            raise ValueError(f"{block.recipe}: {path} exists")
        return write(path, block.text)
    lines = (read(path) or "").splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if anchor in line]
    if len(at) != 1:
        raise ValueError(f"{block.recipe}: {path} has {len(at)} lines with `{anchor}`")
    place = at[0] + (side == "after")
    write(path, "".join(lines[:place]) + block.text + "".join(lines[place:]))


def wanted_tree():
    """{path: bytes} of the tree with all recipes applied: tracked and new files."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"]
    listing += ["CMakeLists.txt", "cmake", "csrc", "kernels_cl", "python", "VERSION", "setup.py", "pyproject.toml"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = {name: (ROOT / name).read_bytes() for name in names if name and (ROOT / name).is_file()}

    def read(path):
        return files[path].decode() if path in files else None

    for block in edits():
        apply(block, read, lambda path, text: files.__setitem__(path, text.encode()))
    return files


def write_tree(files):
    """Makes COPY hold these files; those that are equal stay untouched, so that a build stays incremental."""
    for path, content in files.items():
        target = COPY / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for folder in ("csrc", "kernels_cl", "cmake"):
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(COPY)) not in files:
                path.unlink()


def run(*command, **options):
    # cmake and ninja may be packages of the environment, whose programs are beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    options["env"] = {**options.get("env", os.environ), "PATH": path}
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


# What the copy's build takes over from the tree's own: with other flags, nothing would be in ccache.
SETTINGS = re.compile(
    r"^(CMAKE_(?:BUILD_TYPE|PREFIX_PATH|CXX_COMPILER|CXX_FLAGS|EXE_LINKER_FLAGS)|Python3?_(?:EXECUTABLE|INCLUDE_DIR))"
    r":\w+=(.+)$",
    re.MULTILINE,
)


def settings():
    """{variable of CMake: value} of the tree's own build; what a build needs at least where there is none."""
    prefix = [torch.utils.cmake_prefix_path, os.environ.get("CMAKE_PREFIX_PATH", "").replace(":", ";")]
    found = {
        "CMAKE_PREFIX_PATH": ";".join(filter(None, prefix)),
        "Python_EXECUTABLE": sys.executable,
        "Python3_EXECUTABLE": sys.executable,
    }
    cache = ROOT / "build" / "cmake" / "CMakeCache.txt"
    return found | dict(SETTINGS.findall(cache.read_text()) if cache.exists() else [])


def in_copy(text):
    """The text with the environments of the tree as the copy has them. ccache compares paths inside of a tree by their
    place in it."""
    for name in (".venv", ".apt"):
        text = text.replace(str(ROOT / name), str(COPY / name))
    return text


@pytest.fixture(scope="module")
def built():
    """The folder to put on PYTHONPATH for a build with all recipes."""
    write_tree(wanted_tree())
    for name in (".venv", ".apt"):
        if (ROOT / name).exists() and not (COPY / name).exists():
            (COPY / name).symlink_to(ROOT / name)
    build = COPY / "build" / "cmake"
    if not (build / "build.ninja").exists():
        shutil.rmtree(build, ignore_errors=True)
        chosen = [in_copy(f"-D{name}={value}") for name, value in settings().items()]
        run("cmake", "-S", COPY, "-B", build, "-G", "Ninja", "-DTORCH_OCL_TESTS=OFF", *chosen)
    run("cmake", "--build", build)
    run("cmake", "--install", build, "--prefix", COPY / "python" / "torch_ocl", "--component", "python")
    return COPY / "python"


def test_places_exist():
    """Every block of the page fits the tree as it is: found out without a build."""
    assert len({block.recipe for block in edits()}) == len({recipe for recipe, *_ in checks()}) == 6
    wanted_tree()


def test_wrong_page_is_noticed():
    """What makes the page wrong is an error: a line that is not there, a file that is."""
    files = {"a.cpp": "one\ntwo\n"}
    written = {}

    def attempt(title):
        apply(Block("recipe", title, "new\n"), files.get, written.__setitem__)

    attempt("a.cpp: after `one`")
    assert written["a.cpp"] == "one\nnew\ntwo\n"
    attempt("a.cpp: before `two`")
    assert written["a.cpp"] == "one\nnew\ntwo\n"
    for title in ("a.cpp: after `three`", "a.cpp: after `o`", "a.cpp", "b.cpp: after `one`", "somewhere: `one`"):
        with pytest.raises(ValueError, match=r".+"):
            attempt(title)


@pytest.mark.build
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", checks(), ids=[recipe.split(":")[0].replace(" ", "_") for recipe, *_ in checks()])
def test_recipe(check, built, tmp_path):
    _, variables, program, expected = check
    script = tmp_path / "check.py"
    script.write_text(f"import torch_ocl\nassert torch_ocl.__file__.startswith({str(built)!r})\n{program}")
    environment = {**os.environ, **variables, "PYTHONPATH": str(built), "TORCH_OCL_CACHE_DIR": str(tmp_path / "cache")}
    printed = run(sys.executable, script, env=environment, cwd=tmp_path, timeout=600)
    for text in expected:
        assert text in printed, printed
