"""Running jobs that lend and borrow cores, on a count of like nodes (`slowdown_driven_queue`).

Who runs, on how many nodes of its own, beside whom, and when it is predicted to end. Predictions
are users' words stretched by the worst-case model (Eq. 6): a job goes as fast as on the node where
it has least. Times are whole nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from wattfold.coordinator.models.amdahl import takes, work
from wattfold.coordinator.policies.backfill import EasyQueue, Passes
from wattfold.coordinator.policies.reservations import Profile
from wattfold.coordinator.policies.slowdown_driven_choice import Lender
from wattfold.coordinator.policies.slowdown_driven_lenders import Lenders
from wattfold.coordinator.policies.slowdown_driven_rules import (
    Sharing,
    SharingRules,
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
    sharing: Sharing
    left: int
    since: int
    cores: int
    """What it has on the node where it has least."""
    own: int
    """Nodes that are its own: whole, or less what its guest has."""
    ends: int
    hosts: dict[int, int] = field(default_factory=dict)
    """Mates that lend to it, and their nodes."""
    guest: int | None = None
    resized: bool = False

    @property
    def waited(self) -> int:
        """How long it waited, and how much longer than asked for it is predicted to run."""
        return self.ends - self.submitted - self.asked

    @property
    def slowdown(self) -> float:
        """By its user's estimate."""
        return (self.ends - self.submitted) / max(self.asked, 1)


class CountedRuns(EasyQueue):
    """The jobs that run on ``units`` nodes of ``cores`` cores, and who of them may lend.

    ``changed`` are running jobs whose cores are others since the last decision, in order.
    """

    __slots__ = ("_lenders", "_runs", "_slowdowns", "changed", "cores", "rules")

    def __init__(
        self,
        units: int,
        cores: int,
        rules: SharingRules,
        *,
        kills_at_limit: bool,
        allowed: Callable[[tuple[int, ...]], bool],
        passes: Passes,
    ) -> None:
        super().__init__(units, kills_at_limit=kills_at_limit, passes=passes)
        self.cores, self.rules = cores, rules
        self.changed: dict[int, None] = {}
        self._runs: dict[int, CountedRun] = {}
        self._lenders = Lenders(max(int(rules.factor * cores), 1), rules.limits.mates, allowed)
        self._slowdowns = 0.0
        """Of all that run, added up."""

    # What is told.

    def ended(self, job: int, now: int) -> None:
        """A running job has ended. Its nodes are free, or its mates' and its guest's."""
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
        """A running job is taken to run for another time than before on all its cores."""
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

    # What is asked.

    def runs(self, job: int) -> bool:
        """Whether a job runs, rather than waits."""
        return job in self._runs

    def nodes_of(self, job: int) -> int:
        """How many nodes a running job is on."""
        return self._runs[job].nodes

    def guest_of(self, job: int) -> int | None:
        """The job that has cores of a running job's nodes."""
        return self._runs[job].guest

    def hosts_of(self, job: int) -> dict[int, int]:
        """The mates of a running job, and the nodes each of them holds."""
        return self._runs[job].hosts

    def cores_of(self, job: int) -> tuple[int, int]:
        """A running job's cores on each of its own nodes, and on each of its mates'."""
        run = self._runs[job]
        if run.hosts:
            return (self.cores if run.sharing.lends else run.cores), run.cores
        return run.cores, 0

    def ends_of(self, job: int) -> int:
        """When a running job is predicted to end."""
        return self._runs[job].ends

    def _overdue(self, now: int) -> int:
        """Nodes of jobs that end in this instant, by their limits."""
        if not self.kills_at_limit or not self.running or self.running[0][0] > now:
            return 0
        runs = self._runs
        ended = (entry for entry in self.running if entry[0] <= now)
        return sum(own for _, job, own in ended if not runs[job].resized)

    def _profile(self, now: int) -> Profile:
        """What will be free when, by the running jobs alone."""
        profile = Profile(self.free, now)
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
        """Whether the first that waits still has its nodes in time if these end later."""
        late = 0
        for mate in mates:
            run = self._runs[mate]
            if run.ends <= self._shadow < run.ends + longer:
                late += run.own
        return late <= self._extra

    # How they go on.

    def _inherit(self, guest: CountedRun, owner: CountedRun, now: int) -> None:
        """An owner has ended before its guest, which gets its nodes."""
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
        """A running job goes on with so many cores where it has least."""
        self._advance(run, now)
        run.cores, run.resized = cores, True
        self._expect(run, now)
        self.changed[run.job] = None

    def _advance(self, run: CountedRun, now: int) -> None:
        """What is left of a running job now."""
        run.left = max(run.left - self._does(run, now - run.since), 0)
        run.since = now

    def _expect(self, run: CountedRun, now: int) -> None:
        """When a running job is predicted to end."""
        self._slowdowns -= run.slowdown
        if run.own:
            self._drop(run)
        run.ends = self._predicted(run, now)
        if run.own:
            self._put(run)
        self._slowdowns += run.slowdown

    def _predicted(self, run: CountedRun, now: int) -> int:
        """When it ends, if it has its cores until its guest ends, then all of its nodes."""
        shared_until = self._runs[run.guest].ends if run.guest is not None else now
        does = self._does(run, shared_until - now)
        if run.guest is not None and run.left > does:
            return shared_until + run.left - does
        return now + takes(run.left, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _does(self, run: CountedRun, time: int) -> int:
        """What it does in a time with the cores it has, of its work on all of them."""
        return work(time, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _put(self, run: CountedRun) -> None:
        entry = (run.ends, run.job, run.own)
        insort(self.running, entry)
        self._ends[run.job] = entry

    def _drop(self, run: CountedRun) -> None:
        entry = self._ends.pop(run.job)
        del self.running[bisect_left(self.running, entry)]

    def _join(self, run: CountedRun) -> None:
        """A job that has all its nodes to itself may lend."""
        sharing = run.sharing
        most = lent_at_most(self.rules.factor, self.cores, sharing.serial_ppm)
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
