"""Names and defaults that the help of commands shows.

They are separate from the simulator, which loads too slowly for a help text.
"""

from __future__ import annotations

import enum

MODELS = ("lublin", "poisson")
"""Models that generate jobs."""
LATE_EUR_H = 10.0
"""Cost of an hour of tardiness of a job of weight 1, in EUR."""


class RunTimeModel(enum.StrEnum):
    """Model of the run time of jobs."""

    PASS = "pass"  # noqa: S105 - a model, not a password
    IDEAL = "ideal"
    WORST_CASE = "worst-case"


class LublinKind(enum.Enum):
    """Jobs of the model: one kind for all, one of the two kinds, or both kinds merged."""

    COMBINED = "combined"
    BATCH = "batch"
    INTERACTIVE = "interactive"
    BOTH = "both"
