"""FCFS and EASY if counting is not exact: shared or heterogeneous nodes, blocked cores, own caps.

Jobs start in order of priority and submission. For the first job that does not fit, the earliest
time at which it will fit by the estimates of the running jobs is reserved (the *shadow* time).
Later jobs may start first if they end by then, or take only resources that the first job leaves
over (Lifka 1995; Mu'alem and Feitelson 2001). Fitting is exact, per node and in watts.

A search examines all nodes and jobs once. It tries one of several identical jobs: a job that does
not fit now does not fit later in the same round.

Reserved nodes are available before their window begins, for jobs that are expected to end in time.
Jobs that name a reservation form a separate queue with its own head. A job that waits for its
window blocks no other job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.candidates import Candidate, RunningJob, Shape
from wattfold.coordinator.policies.backfill.expected_starts import Unexplained
from wattfold.coordinator.policies.backfill.job_size import size_key, size_of
from wattfold.coordinator.policies.port import Change, Decision, NamedJobs, Reason, Site
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.requests import yielding
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes

_Caps = tuple[int, Levels]
_Right = tuple[int, str, str, str] | None
_Counted = tuple[SizeUnit, int, Spread]
_Filters = tuple[tuple[str, ...], tuple[NodeId, ...]]
_Asked = tuple[_Counted, bool, int, _Caps, Amounts, _Filters, _Right]
FIRST = "first in the queue"
BEHIND = "behind the first in the queue"
BLOCKED = "its cores are still held by ending jobs or by processes of another journal"

REMEMBERED = 4096
"""Number of shapes at which the cached data of shapes are dropped."""


def never(asked: str) -> str:
    """Return the reason of a job that can never start."""
    return f"requests {asked} at full power, more than the machine or its budget has"


@dataclass(frozen=True, slots=True, kw_only=True)
class EasySettings:
    """Settings of the policy, as in `easy`."""

    size: str
    cap_uw: int | None
    backfill: bool


@dataclass(frozen=True, slots=True)
class SearchCache:
    """Cached results for jobs and shapes. They are valid while the site is unchanged."""

    sizes: dict[tuple[object, ...], int] = field(default_factory=dict)
    shapes: dict[_Asked, Shape] = field(default_factory=dict)
    startable: dict[Shape, bool] = field(default_factory=dict)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    """Candidates of the last round."""

    @property
    def full(self) -> bool:
        """Whether the cache must be dropped."""
        return len(self.shapes) >= REMEMBERED


class EasySearch:
    """State of one round: remaining resources, decisions and reasons so far.

    ``running`` and ``waiting`` are ordered; ``waiting`` in queue order.
    """

    def __init__(
        self,
        *,
        jobs: NamedJobs,
        site: Site,
        running: Sequence[int],
        waiting: Sequence[int],
        settings: EasySettings,
        now_ns: int,
        known: SearchCache | None = None,
    ) -> None:
        """Start a round. ``known`` comes from earlier rounds on the same site and is extended."""
        self._reasons: list[Reason] = []
        self._unexplained: list[Unexplained] = []
        self._site, self._settings, self._now_ns = site, settings, now_ns
        self._cap_uw = settings.cap_uw or max(node.spec.kind.most_uw for node in site.nodes)
        self._kinds = [node.spec.kind for node in site.nodes]
        self.preemptions: list[tuple[int, int]] = []
        """Running jobs to preempt, each with the preempting job."""
        self._preempted = {queue.name: queue.preempts for queue in site.queues}
        self._windows = Windows(site.reservations)
        self._room = Room(site.nodes, site.spendable_uw, self._windows, now_ns)
        self._running: list[RunningJob] = []
        self._changes: list[Change] = []
        self._known = known if known is not None else SearchCache()
        self._nowhere: set[Shape] = set()
        for job in running:
            view = jobs.view(job)
            assert view.current is not None
            began_ns = view.started_ns if view.started_ns >= 0 else now_ns
            current = view.current
            self._book(job, view, current.shares, current.size, current.cap_uw, began_ns)
        self._waiting = [self._candidate(job, jobs.view(job)) for job in waiting]
        self._known.candidates.clear()
        self._known.candidates.update((one.job, one) for one in self._waiting)
        self._waits = {one.view.job_id for one in self._waiting}

    @cached_property
    def _empty(self) -> Room:
        """All resources that will ever be available.

        They include the resources of unreachable nodes and reserved nodes, so such nodes are no
        reason for "never".
        """
        return Room(self._site.nodes, self._site.most_uw)

    @property
    def reasons(self) -> list[Reason]:
        """Reasons of the waiting jobs. Expected starts are computed at the first access."""
        over_ns = [one.end_ns for one in self._windows.reservations if one.end_ns > self._now_ns]
        for one in self._unexplained:
            starts = one.starts(over_ns, self._duration_ns)
            self._reasons += [
                Reason(waits.job, waits.kept(one.room) or BEHIND, start_ns=starts.get(waits.job, 0))
                for waits in one.left
            ]
        self._unexplained.clear()
        return self._reasons

    def decide(self) -> Decision:
        """Return the starting jobs, in order, and the running jobs to preempt."""
        queues: dict[str, list[Candidate]] = {}
        for one in self._waiting:
            if self._may_start(one):
                queues.setdefault(one.view.spec.reservation, []).append(one)
        # Jobs of a reservation go first: its nodes are reserved for them.
        for name in sorted(queues, reverse=True):
            queue = queues[name]
            while queue and self._start(queue[0]):
                queue.pop(0)
            if queue:
                self._reserve_and_backfill(queue[0], queue[1:], last=not name)
        return Decision(self._changes, self.preemptions)

    def _candidate(self, job: int, view: JobView) -> Candidate:
        """Return the candidate of a job: the last round's candidate if the job is unchanged."""
        before = self._known.candidates.get(job)
        return before if before is not None and before.view is view else self._sized(job, view)

    def _sized(self, job: int, view: JobView) -> Candidate:
        cap_uw, spec = self._level_uw(view), view.spec
        key = size_key(view, cap_uw)
        sizes, shapes = self._known.sizes, self._known.shapes
        if key not in sizes:
            sizes[key] = size_of(view, self._site, self._settings.size, cap_uw)
        size = sizes[key]
        takes_ns = self._room.takes_ns(view, max(size, 1), cap_uw)
        right = (takes_ns, spec.reservation, spec.queue, spec.user) if takes_ns else None
        counted = spec.unit, spec.unit_cores, spec.spread
        caps, amounts = (cap_uw, spec.levels), spec.unit_amounts
        place = counted, spec.exclusive, size, caps, amounts, spec.node_filters, right
        return Candidate(
            job=job,
            view=view,
            size=size,
            cap_uw=cap_uw,
            takes_ns=takes_ns,
            shape=shapes.setdefault(place, len(shapes)),
        )

    def _level_uw(self, view: JobView) -> int:
        """Return the level of a job."""
        return view.spec.cap_uw or self._cap_uw

    def _may_start(self, candidate: Candidate) -> bool:
        """Return whether it could start on an empty machine; if not, store the reason."""
        if candidate.view.yields_to in self._waits:
            self._wait(candidate, yielding(candidate.view))
            return False
        if (
            candidate.view.job_id in self._site.clearing
            and candidate.size
            and self._fits_unblocked(candidate)
        ):
            return True  # The blocked resources are reserved for this job.
        if candidate.view.spec.reservation:
            return self._may_start_inside(candidate)
        startable = self._known.startable
        if candidate.shape not in startable:
            startable[candidate.shape] = (
                candidate.size > 0 and candidate.place(self._empty) is not None
            )
        if startable[candidate.shape]:
            return True
        spec = candidate.view.spec
        blocked = any(node.blocked for node in self._site.nodes)
        if candidate.size and blocked and self._fits_unblocked(candidate):
            self._wait(candidate, BLOCKED)
        else:
            reason = never(size_text(spec, spec.size_min))
            self._reasons.append(Reason(candidate.job, reason, never=True))
        return False

    def _may_start_inside(self, candidate: Candidate) -> bool:
        """Return the same for a job that names a reservation, which must have begun."""
        own = self._windows.own(candidate.view.spec)
        if own is None or candidate.size == 0:
            told = self._windows.why(candidate.view.spec, (), self._now_ns, self._now_ns)
            asked = size_text(candidate.view.spec, candidate.view.spec.size_min)
            self._reasons.append(Reason(candidate.job, told or never(asked), never=True))
            return False
        if told := self._windows.why(
            candidate.view.spec, (), self._now_ns, self._now_ns + candidate.takes_ns
        ):
            self._wait(candidate, told, own.start_ns if own.start_ns > self._now_ns else 0)
            return False
        return True

    def _fits_unblocked(self, candidate: Candidate) -> bool:
        nodes = [replace(node, blocked=CpuSet()) for node in self._site.nodes]
        return candidate.place(Room(nodes, self._empty.power_uw)) is not None

    def _book(
        self,
        job: int,
        view: JobView,
        shares: tuple[Share, ...],
        size: int,
        cap_uw: int,
        began_ns: int,
    ) -> None:
        """Take the resources of a job and store when it returns them."""
        levels = view.current.levels if view.current else view.spec.levels
        power_uw = self._room.power_of(shares, cap_uw, levels)
        alone = takes_whole_nodes(view.spec)
        self._room.take(shares, power_uw, alone)
        due_ns = began_ns + self._duration_ns(view, shares, size, cap_uw)
        self._running.append(
            RunningJob(
                job=job,
                view=view,
                due_ns=due_ns,
                ends_ns=max(due_ns, self._now_ns),
                shares=shares,
                power_uw=power_uw,
                alone=alone,
            )
        )

    def _duration_ns(self, view: JobView, shares: Iterable[Share], size: int, cap_uw: int) -> int:
        kinds = self._room.kinds_under(shares) or self._kinds[:1]
        return duration_ns(view, kinds, size, cap_uw)

    def _start(self, candidate: Candidate) -> bool:
        shares = candidate.place(self._room)
        if shares is None:
            return False
        cap_uw = self._room.held_uw(shares, candidate.cap_uw)
        self._book(candidate.job, candidate.view, shares, candidate.size, cap_uw, self._now_ns)
        self._changes.append(Change(candidate.job, candidate.size, candidate.cap_uw))
        return True

    def _reserve_and_backfill(
        self, head: Candidate, later: Sequence[Candidate], *, last: bool
    ) -> None:
        cleared = self._cleared(head)
        shadow_ns, future = (self._now_ns, cleared) if cleared else self._shadow(head)
        if cleared is None:
            self._wait(head, head.kept(self._room) or FIRST, shadow_ns)
        left = [
            one
            for one in later
            if not (self._settings.backfill and self._backfill(one, head, shadow_ns, future))
        ]
        # The room stays as it is after the last queue.
        room, running = self._room, self._running
        if not last:
            room, running = room.copy(), list(running)
        self._unexplained.append(
            Unexplained(head, 0 if cleared else shadow_ns, left, room, running)
        )

    def _cleared(self, head: Candidate) -> Room | None:
        """Return the free resources after all jobs preempted for the head have ended.

        Return None if the head would not fit then. Store the reason of the head otherwise. While
        preempted jobs are still ending, no further jobs are preempted.
        """
        if head.view.job_id in self._site.clearing:
            victims: list[RunningJob] = []
            room = self._unblocked()
            told = "starts when the jobs preempted for it have ended"
        else:
            victims = self._victims(head)
            if not victims:
                return None
            room = self._room.copy()
            for entry in victims:
                room.give_back(entry.shares, entry.power_uw, entry.alone)
            names = ", ".join(entry.view.job_id for entry in victims)
            told = f"starts when these jobs, preempted for it, have ended: {names}"
        if head.place(room) is None:
            return None
        self.preemptions += [(entry.job, head.job) for entry in victims]
        self._wait(head, told)
        return room

    def _victims(self, head: Candidate) -> list[RunningJob]:
        """Return the youngest running jobs whose preemption would let the head start now."""
        queues = self._preempted.get(head.view.spec.queue, ())
        doomed = {job for job, _ in self.preemptions}
        able = [
            entry
            for entry in self._running
            if entry.view.preemptable and entry.view.spec.queue in queues
            if entry.job not in doomed
        ]
        able.sort(key=lambda e: (e.view.started_ns < 0, e.view.started_ns, e.job), reverse=True)
        room, chosen = self._room.copy(), list[RunningJob]()
        for entry in able:
            room.give_back(entry.shares, entry.power_uw, entry.alone)
            chosen.append(entry)
            if head.place(room) is not None:
                break
        else:
            return []
        for entry in reversed(chosen[:-1]):
            room.take(entry.shares, entry.power_uw, entry.alone)
            if head.place(room) is None:
                room.give_back(entry.shares, entry.power_uw, entry.alone)
            else:
                chosen.remove(entry)
        return chosen

    def _unblocked(self) -> Room:
        """Return the free resources after all ending jobs have ended."""
        nodes = [
            replace(node, blocked=CpuSet(), blocked_bytes=0, blocked_gpus=())
            for node in self._site.nodes
        ]
        room = Room(nodes, self._site.most_uw, self._windows, self._now_ns)
        for entry in self._running:
            room.take(entry.shares, entry.power_uw, entry.alone)
        return room

    def _shadow(self, head: Candidate) -> tuple[int, Room]:
        """Return when the head of the queue will fit, and the free resources then; 0 = unknown."""
        future = self._room.copy()
        ordered = sorted(self._running, key=lambda e: e.ends_ns)
        ends = {ns: list(entries) for ns, entries in groupby(ordered, key=lambda e: e.ends_ns)}
        overs = {one.end_ns for one in self._windows.reservations if one.end_ns > self._now_ns}
        for time_ns in sorted(overs.union(ends)):
            for entry in ends.get(time_ns, ()):
                future.give_back(entry.shares, entry.power_uw, entry.alone)
            future.at_ns = time_ns
            if head.place(future) is not None:
                return time_ns, future
        future.at_ns = self._now_ns
        return 0, future

    def _backfill(
        self, candidate: Candidate, head: Candidate, shadow_ns: int, future: Room
    ) -> bool:
        """Start a later job if it ends before the head starts, or leaves enough for the head."""
        shares = None if candidate.shape in self._nowhere else candidate.place(self._room)
        if shares is None:
            self._nowhere.add(candidate.shape)
            return False
        takes_ns = self._duration_ns(candidate.view, shares, candidate.size, candidate.cap_uw)
        if self._now_ns + takes_ns <= shadow_ns:
            return self._start(candidate)
        power_uw = future.power_of(shares, candidate.cap_uw, candidate.view.spec.levels)
        alone = takes_whole_nodes(candidate.view.spec)
        beside = future.copy()
        beside.take(shares, power_uw, alone)
        if head.place(beside) is None:
            return False
        future.take(shares, power_uw, alone)
        return self._start(candidate)

    def _wait(self, candidate: Candidate, reason: str, start_ns: int = 0) -> None:
        self._reasons.append(Reason(candidate.job, reason, start_ns=start_ns))
