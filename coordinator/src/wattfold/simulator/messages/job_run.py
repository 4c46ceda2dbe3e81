"""True course of a job: its cores and power, its speed, and its progress.

The work is integrated: at every change of cores or caps, the work done at the old speed is added
and the end is computed again. A job makes progress only while all its processes run, because a
program waits for missing peers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.simulator.messages.clock import ScheduledEvent
from wattfold.simulator.messages.work import CoresAtCap, Work


@dataclass(slots=True, kw_only=True)
class JobTotals:
    """Sums of a job so far. Integrals are over time, in nanoseconds; -1 = not yet."""

    start_ns: int = -1
    end_ns: int = -1
    first_size: int = 0
    last_size: int = 0
    resizes: int = 0
    core_ns: int = 0
    """Cores held."""
    drawn_uw_ns: int = 0
    level_uw_ns: int = 0
    """Lowest level in force on its nodes while it ran."""
    ran_ns: int = 0
    stalled_ns: int = 0
    """Time from restart orders until the job resumed."""


@dataclass(slots=True, kw_only=True)
class JobRun:
    """Running processes of a job, and its progress."""

    job_id: JobId
    work: Work
    ranks: int
    """Number of processes that must run for progress."""
    attempt: int = 1
    totals: JobTotals = field(default_factory=JobTotals)
    places: dict[NodeId, CoresAtCap] = field(default_factory=dict)
    drawn_uw: dict[NodeId, int] = field(default_factory=dict)
    """Its share of the power of its nodes."""
    done: float = 0.0
    stopped: set[NodeId] = field(default_factory=set)
    """Nodes on which its processes are suspended."""
    rate: float = 0.0
    """Fraction done per nanosecond."""
    since_ns: int = 0
    ended: bool = False
    kept: float = 0.0
    """Fraction done at the start of this attempt, which remains unless the job saves."""
    saved: bool = False
    stalled_since_ns: int = -1
    """Start of its current restart, which spans two attempts; -1 = none."""
    start_ns: int = 0
    """Time from the start of all its processes until it resumes from its snapshot."""
    goes_on_ns: int = 0
    """Time at which it resumes; 0 = its processes have never all run."""
    timer: ScheduledEvent | None = None

    @property
    def cores(self) -> int:
        """Number of its cores."""
        return sum(place.cores for place in self.places.values())

    @property
    def complete(self) -> bool:
        """Whether all its processes run."""
        return len(self.places) == self.ranks

    @property
    def level_uw(self) -> int:
        """Lowest level in force on its nodes."""
        return min((place.level_uw for place in self.places.values()), default=0)

    def advance(self, now_ns: int) -> None:
        """Add the work and energy since the last change. Call before every change."""
        elapsed_ns = now_ns - self.since_ns
        self.since_ns = now_ns
        if not elapsed_ns or not self.places:
            return
        totals = self.totals
        self.done += self.rate * elapsed_ns
        totals.core_ns += self.cores * elapsed_ns
        totals.drawn_uw_ns += sum(self.drawn_uw.values()) * elapsed_ns
        if self.rate:
            totals.level_uw_ns += self.level_uw * elapsed_ns
            totals.ran_ns += elapsed_ns

    def reprice(self, now_ns: int) -> None:
        """Compute the speed from the current resources; record its start and its sizes."""
        if self.complete and not self.goes_on_ns:
            self.goes_on_ns = now_ns + self.start_ns
        loaded = self.complete and now_ns >= self.goes_on_ns
        goes_on = loaded and not self.stopped
        if loaded and self.stalled_since_ns >= 0 and not self.stopped:
            self.totals.stalled_ns += now_ns - self.stalled_since_ns
            self.stalled_since_ns = -1
        self.rate = self.work.rate(self.places.values()) if goes_on else 0.0
        if not self.complete or self.ended:
            return
        totals, size = self.totals, self.cores
        if totals.start_ns < 0:
            totals.start_ns, totals.first_size = now_ns, size
        elif size != totals.last_size:
            totals.resizes += 1
        totals.last_size = size

    @property
    def left_ns(self) -> int | None:
        """Time to its end at the current speed, None without progress."""
        if self.rate <= 0:
            return None
        return max(math.ceil((1.0 - self.done) / self.rate), 0)
