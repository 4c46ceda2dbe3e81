"""Core sharing: which jobs lend and borrow cores."""

from __future__ import annotations

import enum


class CoreSharing(enum.Enum):
    """Whether a job shares cores: set by its user or its queue, or else by its kind."""

    AS_KIND = "as-kind"
    NO = "no"
    LEND = "lend"
    BORROW = "borrow"
    BOTH = "both"

    @property
    def lends(self) -> bool:
        """Whether an explicit setting lets other jobs borrow some of the cores."""
        return self in (CoreSharing.LEND, CoreSharing.BOTH)

    @property
    def borrows(self) -> bool:
        """Whether an explicit setting lets the job start on fewer cores, on nodes of other jobs."""
        return self in (CoreSharing.BORROW, CoreSharing.BOTH)
