"""A job as it really goes: what it holds now, how fast that is, and how much of it is done.

The work is integrated: whenever cores or caps change, what was done at the old speed is added up
and the end is set anew. A job goes on only while all its processes run; a program whose peers are
missing waits for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.simulation.cluster.clock import Timer
from wattfold.coordinator.simulation.cluster.work import Place, Work


@dataclass(slots=True, kw_only=True)
class JobTotals:
    """What a job has had so far. Integrals are over time, in nanoseconds; -1 = not yet."""

    start_ns: int = -1
    end_ns: int = -1
    first_size: int = 0
    last_size: int = 0
    resizes: int = 0
    core_ns: int = 0
    """Cores held."""
    drawn_uw_ns: int = 0
    level_uw_ns: int = 0
    """Least level in force on its nodes, while it ran."""
    ran_ns: int = 0
    stalled_ns: int = 0
    """From orders to restart it to the moments at which it went on."""


@dataclass(slots=True, kw_only=True)
class JobRun:
    """The processes of a job that run, and its progress."""

    job_id: JobId
    work: Work
    ranks: int
    """Processes it needs to go on."""
    attempt: int = 1
    totals: JobTotals = field(default_factory=JobTotals)
    places: dict[NodeId, Place] = field(default_factory=dict)
    drawn_uw: dict[NodeId, int] = field(default_factory=dict)
    """Its share of what its nodes draw."""
    done: float = 0.0
    stopped: set[NodeId] = field(default_factory=set)
    """Where its processes are suspended."""
    rate: float = 0.0
    """Share done in a nanosecond."""
    since_ns: int = 0
    ended: bool = False
    kept: float = 0.0
    """Share done when this attempt began: what is left of it unless it saves."""
    saved: bool = False
    stalled_since_ns: int = -1
    """Since when it is being restarted, from one attempt into the next."""
    start_ns: int = 0
    """How long it takes to go on from its snapshot once all its processes run."""
    goes_on_ns: int = 0
    """When it will have; 0 = they never all ran."""
    timer: Timer | None = None

    @property
    def cores(self) -> int:
        """Cores it is on."""
        return sum(place.cores for place in self.places.values())

    @property
    def complete(self) -> bool:
        """Whether all its processes run."""
        return len(self.places) == self.ranks

    @property
    def level_uw(self) -> int:
        """Least level in force on its nodes."""
        return min((place.level_uw for place in self.places.values()), default=0)

    def advance(self, now_ns: int) -> None:
        """Adds up what was done and drawn since the last change. Call before every change."""
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
        """Finds the speed of what it holds now; notes its start and its sizes."""
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
        """Time to its end at the present speed, None while it does not go on."""
        if self.rate <= 0:
            return None
        return max(math.ceil((1.0 - self.done) / self.rate), 0)
