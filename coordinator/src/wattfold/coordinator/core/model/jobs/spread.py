"""Whether the units of a job go to one node or to several."""

from __future__ import annotations

import enum


class Spread(enum.Enum):
    """Distribution of the units of a job. Jobs sized in cores or nodes have no choice."""

    ANY = "any"
    TOGETHER = "together"
    """All units on one node."""
    APART = "apart"
    """No two units on the same node."""
