"""Operators that ran on the CPU because they have no kernel."""

from .. import _core


def fallbacks():
    """{operator: number of calls that ran on the CPU} since the start or the last reset."""
    return dict(_core.core().fallbacks()) if _core.loaded() else {}


def reset_fallbacks():
    """Empties the counts."""
    if _core.loaded():
        _core.core().reset_fallbacks()


def set_fallback_policy(policy):
    """What an operator without a kernel does: "warn" (run on the CPU, warn once per operator), "silent" or "error"."""
    if policy not in ("warn", "silent", "error"):
        raise ValueError(f'a fallback policy is "warn", "silent" or "error", not {policy!r}')
    _core.core().set_fallback_policy(policy)


def fallback_policy():
    return _core.core().fallback_policy()
