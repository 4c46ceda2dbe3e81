"""Limits and answers of a search, without OR-Tools."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.solvers.lists.problem import QueuePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search; the first one reached ends it. Wall time alone may vary between runs."""

    deterministic: float
    """Limit in OR-Tools' own measure, which hardly counts the work of cumulative constraints."""
    conflicts: int
    wall_s: float
    memory_mb: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """Number of neighbourhoods to try, and of jobs in each."""

    rounds: int = 4
    free: int = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of a search."""

    plan: QueuePlan | None
    """A better plan than the incumbent, or None."""
    status: str
    """OR-Tools' status of the last model, or ``EMPTY`` or ``ROUNDED``.

    ``EMPTY``: there was nothing to do. ``ROUNDED``: the incumbent does not fit the grid.
    """
    proven: bool = False
    """Whether no plan is better under the problem's objective."""
    solves: int = 0
    deterministic: float = 0.0
