"""Operators that ran on the CPU because they have no kernel."""

from .. import _core


def fallbacks() -> dict[str, int]:
    """{operator: number of calls that ran on the CPU} since the start or the last reset."""
    return dict(_core.core().fallbacks()) if _core.loaded() else {}


def reset_fallbacks() -> None:
    """Empties the counts."""
    if _core.loaded():
        _core.core().reset_fallbacks()


def set_fallback_policy(policy: str) -> None:
    """What an operator without a kernel does: "warn" (run on the CPU, warn once per operator), "silent" or "error".

    "error" raises NotImplementedError. Raises ValueError for another policy.
    """
    if policy not in ("warn", "silent", "error"):
        raise ValueError(f'a fallback policy is "warn", "silent" or "error", not {policy!r}')
    _core.core().set_fallback_policy(policy)


def fallback_policy() -> str:
    """What an operator without a kernel does now: "warn", "silent" or "error"."""
    return _core.core().fallback_policy()
