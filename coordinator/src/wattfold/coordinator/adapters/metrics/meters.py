"""Counters of the coordinator process that the state does not hold.

Adding a value takes about a microsecond of the event loop. A scrape sends a copy of all counters to
the view process.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from wattfold import log_output
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.core.model.plan import PlanningRound

ROUND_BOUNDS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
COMMIT_BOUNDS_S = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
OUTCOMES_MAX = 32
"""Maximum number of pairs of solver and outcome; further pairs are counted as `OTHER`."""
OTHER = ("other", "other")


@dataclass(slots=True)
class Durations:
    """Durations counted by upper bounds, in seconds. The last count is of longer durations."""

    bounds_s: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    sum_ns: int = 0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds_s) + 1)

    def add(self, duration_ns: int) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.bounds_s, duration_ns / 1e9)] += 1
        self.sum_ns += duration_ns


@dataclass(slots=True, kw_only=True)
class Figures:
    """The counters. ``rounds`` are keyed by solver and outcome."""

    rounds: dict[tuple[str, ...], Durations] = field(default_factory=dict)
    commits: Durations = field(default_factory=lambda: Durations(COMMIT_BOUNDS_S))
    log_lines_dropped: int = 0
    energy_uj: int = 0


class Meters:
    """The counters since the start of the coordinator."""

    def __init__(self, seen: Observations) -> None:
        self._seen = seen
        self._figures = Figures()

    def committed(self, duration_ns: int) -> None:
        """Count a commit of the journal."""
        self._figures.commits.add(duration_ns)

    def planned(self, record: PlanningRound) -> None:
        """Count a planning round."""
        key: tuple[str, ...] = (record.solver, record.outcome)
        rounds = self._figures.rounds
        if key not in rounds and len(rounds) >= OUTCOMES_MAX:
            key = OTHER
        rounds.setdefault(key, Durations(ROUND_BOUNDS_S)).add(record.solve_ns)

    def figures(self) -> Figures:
        """Return the counters. They are copied when the feed sends them to the view process."""
        figures = self._figures
        figures.log_lines_dropped = log_output.lines_dropped()
        figures.energy_uj = self._seen.counted_uj
        return figures
