"""Message about a job that exceeded its memory limit."""

from __future__ import annotations

_GIB, _MIB = 1 << 30, 1 << 20


def over_memory_text(limit_bytes: int) -> str:
    """Return the reason of the job's end: ``over its memory limit of 4 GiB``."""
    if limit_bytes >= _GIB:
        return f"over its memory limit of {limit_bytes / _GIB:.4g} GiB"
    return f"over its memory limit of {limit_bytes / _MIB:.4g} MiB"
