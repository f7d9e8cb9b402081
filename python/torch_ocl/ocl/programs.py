"""Compiled OpenCL programs: how many there are, and the disk cache."""

from .. import _core


def build_counts():
    """(programs compiled, programs loaded from the disk cache) in this process."""
    return tuple(_core.core().build_counts())


def cache_folder():
    return _core.core().cache_folder()


def cache_state():
    """{"files": ..., "bytes": ..., "writable": ...} of the disk cache."""
    return dict(_core.core().cache_state())


def clear_cache():
    """Deletes the compiled programs on disk. Programs in use stay."""
    _core.core().clear_cache()
