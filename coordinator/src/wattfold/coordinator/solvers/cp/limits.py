"""What bounds a search, and what it came to: all that is known of one without OR-Tools."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.solvers.lists.problem import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a search ends, whichever comes first. Wall time alone may differ from run to run."""

    deterministic: float
    """Of OR-Tools' own measure, which hardly counts what cumulative constraints do."""
    conflicts: int
    wall_s: float
    memory_mb: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """How many neighbourhoods of how many jobs are tried."""

    rounds: int = 4
    free: int = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a search."""

    plan: Plan | None
    """A better one than the incumbent, or None."""
    status: str
    """OR-Tools' of the last model; ``EMPTY`` where nothing was to be done, ``ROUNDED`` where the
    incumbent does not fit the grid."""
    proven: bool = False
    """Whether no plan is better under the problem's objective."""
    solves: int = 0
    deterministic: float = 0.0
