"""Whether the units of a job go to one node or to several."""

from __future__ import annotations

import enum


class Spread(enum.Enum):
    """Where the units of a job may be. Jobs whose sizes count cores or nodes have no choice."""

    ANY = "any"
    TOGETHER = "together"
    """All of them on one node."""
    APART = "apart"
    """No two of them on one node."""
