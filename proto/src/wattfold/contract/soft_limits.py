"""Soft limits of the submitting shell that a job starts with.

They exclude processor time and address space, which limit logins, and locked memory, which fast
networks need and login hosts keep small.
"""

from __future__ import annotations

from dataclasses import dataclass

CARRIED = ("core", "fsize", "nofile", "nproc", "stack")
"""Names of getrlimit(2) in lower case, without RLIMIT_."""
UMASK_DEFAULT = 0o022
UMASK_MAX = 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftLimit:
    """A soft limit with its name; ``soft`` None = no limit."""

    name: str
    soft: int | None = None


def refusal(umask: int, limits: tuple[SoftLimit, ...]) -> str:
    """Return why a job cannot start with these values, for people; empty if it can."""
    if not 0 <= umask <= UMASK_MAX:
        return f"umask {umask:#o} is outside 0..{UMASK_MAX:#o}"
    names = [limit.name for limit in limits]
    unknown = [name for name in names if name not in CARRIED]
    if unknown:
        return f"limit {unknown[0][:40]!r} is not one of {', '.join(CARRIED)}"
    return "a limit is listed twice" if len(set(names)) < len(names) else ""
