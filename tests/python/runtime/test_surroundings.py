"""Places where a process may find itself: no HOME, folders that cannot be written or are full, odd names, other
locales, a plain user. Each runs a convolution, a product and a sum in a fresh interpreter, which must end with
status 0."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "python"
WORK = """
import torch, torch_ocl
x = torch.ones(2, 3, 8, 8, device="ocl")
assert torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3, device="ocl")).sum().item() == 2 * 4 * 36 * 27
assert (torch.ones(16, 16, device="ocl") @ torch.ones(16, 16, device="ocl")).sum().item() == 16**3
assert not torch.ocl.fallbacks()
print("done")
"""
OURS = ("TORCH_OCL_CACHE_DIR", "XDG_CACHE_HOME", "POCL_CACHE_DIR")


def run(remove=(), program=(sys.executable,), cwd=None, **variables):
    """Standard error of WORK with these environment variables, and without those to be removed."""
    kept = {name: value for name, value in os.environ.items() if name not in remove}
    done = subprocess.run(
        [*program, "-c", WORK],
        env=kept | {"PYTHONPATH": str(PACKAGE)} | variables,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        cwd=cwd,
    )
    assert done.returncode == 0 and done.stdout.strip() == "done", (done.returncode, done.stdout, done.stderr)
    return done.stderr


def test_without_home():
    run(remove=("HOME", *OURS))


def test_names_with_spaces_and_letters_beyond_ascii(tmp_path):
    folder = tmp_path / "a folder, größer 猫"
    folder.mkdir()
    run(remove=OURS, HOME=str(folder), cwd=folder)
    assert list((folder / ".cache" / "torch_ocl" / "programs").glob("*.bin"))


@pytest.mark.parametrize("locale", ["C", "tr_TR.ISO-8859-9"])
def test_locales(locale):
    run(LC_ALL=locale, LANG=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode
    ):
        pytest.skip("no permission to mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_under_the_cache(small_disk):
    run(TORCH_OCL_CACHE_DIR=str(small_disk / "cache"))
    whole = [path for path in (small_disk / "cache").rglob("*") if path.is_file() and path.suffix == ".tmp"]
    assert not whole, "what could not be written whole is taken away"


@pytest.fixture
def plain_user():
    """A command that runs another as a user without rights, and a home of that user's."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root becomes another user (setpriv)")
    home = Path(tempfile.mkdtemp())  # not in tmp_path, which only its owner may enter
    os.chown(home, 65534, 65534)
    command = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    for folder in (*Path(sys.executable).parents, *PACKAGE.parents, *home.parents):
        if subprocess.run([*command, "test", "-x", folder]).returncode:
            pytest.skip(f"a plain user may not enter {folder}")
    yield command, home
    shutil.rmtree(home)


def test_a_plain_user(plain_user):
    command, home = plain_user
    run(remove=OURS, program=(*command, sys.executable), HOME=str(home), cwd=home)
    assert list((home / ".cache" / "torch_ocl" / "programs").glob("*.bin"))


def test_a_plain_user_whose_home_cannot_be_written(plain_user):
    command, home = plain_user
    os.chown(home, 0, 0)
    home.chmod(0o755)
    with tempfile.TemporaryDirectory() as temporary:
        os.chown(temporary, 65534, 65534)
        run(remove=OURS, program=(*command, sys.executable), HOME=str(home), TMPDIR=temporary, cwd=home)
        assert list(Path(temporary, "cache-65534", "torch_ocl", "programs").glob("*.bin"))
