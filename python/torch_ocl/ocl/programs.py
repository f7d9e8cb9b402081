"""Compiled OpenCL programs: how many there are, and the disk cache."""

from typing import Any

from .. import _core


def build_counts() -> tuple[int, int]:
    """(programs compiled, programs loaded from the disk cache) in this process."""
    compiled, loaded = _core.core().build_counts()
    return compiled, loaded


def cache_folder() -> str:
    """Folder of the compiled programs on disk (TORCH_OCL_CACHE_DIR)."""
    return _core.core().cache_folder()


def cache_state() -> dict[str, Any]:
    """{"folder", "files", "bytes", "writable", "enabled"} of the disk cache."""
    return dict(_core.core().cache_state())


def clear_cache() -> None:
    """Deletes the compiled programs on disk. Programs in use stay."""
    _core.core().clear_cache()
