"""Running jobs that lend and borrow cores, on a count of identical nodes.

The module stores which jobs run, their own nodes, their mates and guests, and their predicted ends
(`slowdown_driven.queue` decides). Predictions are the users' estimates stretched by the worst-case
model (Eq. 6): the node with the fewest cores of a job decides. Times are whole nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from wattfold.coordinator.models.amdahl import takes, work
from wattfold.coordinator.policies.backfill.counts import EasyQueue, Passes
from wattfold.coordinator.policies.backfill.reservations import FreeUnitProfile
from wattfold.coordinator.policies.slowdown_driven.choice import Lender
from wattfold.coordinator.policies.slowdown_driven.lenders import Lenders
from wattfold.coordinator.policies.slowdown_driven.rules import (
    NodeSharing,
    SharingSettings,
    lent_at_most,
)


@dataclass(slots=True)
class CountedRun:
    """A running job. Times in nanoseconds of the clock, work in nanoseconds on all its cores."""

    job: int
    nodes: int
    asked: int
    submitted: int
    began: int
    sharing: NodeSharing
    left: int
    since: int
    cores: int
    """Its cores on the node with the fewest of them."""
    own: int
    """Number of its own nodes: whole, or without the cores of its guest."""
    ends: int
    hosts: dict[int, int] = field(default_factory=dict)
    """Mates that lend to it, and their nodes."""
    guest: int | None = None
    resized: bool = False

    @property
    def waited(self) -> int:
        """Its wait, plus the predicted excess over its requested time."""
        return self.ends - self.submitted - self.asked

    @property
    def slowdown(self) -> float:
        """Predicted slowdown by the user's estimate."""
        return (self.ends - self.submitted) / max(self.asked, 1)


class CountedRuns(EasyQueue):
    """Running jobs on ``units`` nodes of ``cores`` cores, and the jobs that may lend.

    ``changed`` are running jobs whose cores have changed since the last decision, in order.
    """

    __slots__ = ("_lenders", "_runs", "_slowdowns", "changed", "cores", "rules")

    def __init__(
        self,
        units: int,
        cores: int,
        rules: SharingSettings,
        *,
        kills_at_limit: bool,
        allowed: Callable[[tuple[int, ...]], bool],
        passes: Passes,
    ) -> None:
        super().__init__(units, kills_at_limit=kills_at_limit, passes=passes)
        self.cores, self.rules = cores, rules
        self.changed: dict[int, None] = {}
        self._runs: dict[int, CountedRun] = {}
        self._lenders = Lenders(
            max(int(rules.sharing_factor * cores), 1), rules.limits.mates, allowed
        )
        self._slowdowns = 0.0
        """Sum over all running jobs."""

    # Notifications.

    def ended(self, job: int, now: int) -> None:
        """A running job has ended. Its nodes become free, or go to its mates and its guest."""
        run = self._runs.pop(job)
        self._slowdowns = self._slowdowns - run.slowdown if self._runs else 0.0
        self._lenders.leave(job)
        self.changed.pop(job, None)
        self._fresh = False
        if run.own:
            self._drop(run)
        if run.guest is not None:
            self._inherit(self._runs[run.guest], run, now)
        else:
            self.free += run.own
        for host in run.hosts:
            mate = self._runs[host]
            mate.guest = None
            self._set_cores(mate, self.cores, now)
            self._join(mate)

    def replan(self, job: int, asked: int, now: int) -> None:
        """Set a new expected run time of a running job on all its cores."""
        run = self._runs[job]
        self._advance(run, now)
        self._slowdowns -= run.slowdown
        run.left, run.asked = max(run.left + asked - run.asked, 0), asked
        self._slowdowns += run.slowdown
        self._expect(run, now)
        for host in run.hosts:
            mate = self._runs[host]
            self._advance(mate, now)
            self._expect(mate, now)
        if job in self._lenders.now:
            self._lenders.leave(job)
            self._join(run)
        self._fresh = False

    # Queries.

    def runs(self, job: int) -> bool:
        """Return whether a job runs."""
        return job in self._runs

    def nodes_of(self, job: int) -> int:
        """Return the number of nodes of a running job."""
        return self._runs[job].nodes

    def guest_of(self, job: int) -> int | None:
        """Return the job that borrows cores on a running job's nodes, or None."""
        return self._runs[job].guest

    def hosts_of(self, job: int) -> dict[int, int]:
        """Return the mates of a running job, and the number of nodes of each."""
        return self._runs[job].hosts

    def cores_of(self, job: int) -> tuple[int, int]:
        """Return a running job's cores on each of its own nodes, and on each node of its mates."""
        run = self._runs[job]
        if run.hosts:
            return (self.cores if run.sharing.lends else run.cores), run.cores
        return run.cores, 0

    def ends_of(self, job: int) -> int:
        """Return the predicted end of a running job."""
        return self._runs[job].ends

    def _overdue(self, now: int) -> int:
        """Return the number of nodes of jobs that end at this instant by their limits."""
        if not self.kills_at_limit or not self.running or self.running[0][0] > now:
            return 0
        runs = self._runs
        ended = (entry for entry in self.running if entry[0] <= now)
        return sum(own for _, job, own in ended if not runs[job].resized)

    def _profile(self, now: int) -> FreeUnitProfile:
        """Return the free nodes over time, by the running jobs alone."""
        profile = FreeUnitProfile(self.free, now)
        times, free = profile.times, profile.free
        for ends, _, own in self.running:
            at = max(ends, now)
            if at == times[-1]:
                free[-1] += own
            else:
                times.append(at)
                free.append(free[-1] + own)
        return profile

    def _keeps_head(self, mates: tuple[int, ...], longer: int) -> bool:
        """Return whether the head still has its nodes in time if these jobs end later."""
        late = 0
        for mate in mates:
            run = self._runs[mate]
            if run.ends <= self._shadow < run.ends + longer:
                late += run.own
        return late <= self._extra

    # Progress of running jobs.

    def _inherit(self, guest: CountedRun, owner: CountedRun, now: int) -> None:
        """Give the nodes of an owner that has ended to its guest."""
        del guest.hosts[owner.job]
        if guest.own:
            self._drop(guest)
        guest.own += owner.own
        self._put(guest)
        if guest.sharing.lends:
            self.changed[guest.job] = None
            if not guest.hosts:
                self._set_cores(guest, self.cores, now)
                self._join(guest)

    def _set_cores(self, run: CountedRun, cores: int, now: int) -> None:
        """Continue a running job with ``cores`` on the node with the fewest of its cores."""
        self._advance(run, now)
        run.cores, run.resized = cores, True
        self._expect(run, now)
        self.changed[run.job] = None

    def _advance(self, run: CountedRun, now: int) -> None:
        """Update the remaining work of a running job."""
        run.left = max(run.left - self._does(run, now - run.since), 0)
        run.since = now

    def _expect(self, run: CountedRun, now: int) -> None:
        """Update the predicted end of a running job."""
        self._slowdowns -= run.slowdown
        if run.own:
            self._drop(run)
        run.ends = self._predicted(run, now)
        if run.own:
            self._put(run)
        self._slowdowns += run.slowdown

    def _predicted(self, run: CountedRun, now: int) -> int:
        """Return its end if it keeps its cores until its guest ends, and then all of its nodes."""
        shared_until = self._runs[run.guest].ends if run.guest is not None else now
        does = self._does(run, shared_until - now)
        if run.guest is not None and run.left > does:
            return shared_until + run.left - does
        return now + takes(run.left, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _does(self, run: CountedRun, time: int) -> int:
        """Return its progress in a time with its current cores, as time on all its cores."""
        return work(time, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _put(self, run: CountedRun) -> None:
        entry = (run.ends, run.job, run.own)
        insort(self.running, entry)
        self._ends[run.job] = entry

    def _drop(self, run: CountedRun) -> None:
        entry = self._ends.pop(run.job)
        del self.running[bisect_left(self.running, entry)]

    def _join(self, run: CountedRun) -> None:
        """Add a job to the lenders if it has its nodes to itself."""
        sharing = run.sharing
        most = lent_at_most(self.rules.sharing_factor, self.cores, sharing.serial_ppm)
        lends = min(most, self.cores - sharing.least)
        if not sharing.lends or lends < 1 or run.hosts or run.cores < self.cores:
            return
        self._lenders.join(
            Lender(
                run.job,
                run.own,
                run.waited,
                run.asked,
                run.ends,
                lends,
                sharing.serial_ppm or 0,
                sharing.power_uw,
            )
        )
