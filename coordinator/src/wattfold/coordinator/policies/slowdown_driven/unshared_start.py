"""Starts without mates on named nodes: the head of the queue, and the free nodes of any other job.

If all jobs take identical whole nodes, a start follows from the reservations of the waiting jobs
ahead. Otherwise it follows from the running jobs alone, as if no other job waited, once per shape
and round. Late mates must not delay the head beyond its start (`fits_beside`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.reservations import FreeUnitProfile
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources

Shape = tuple[object, ...]
"""All properties that decide where a job fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job of the queue, at the size and level that it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    limit_ns: int
    """Assumed run time for the search (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Return the cores on which it fits in full, or None."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.limit_ns)


class CoresAtLevels(NamedTuple):
    """Cores of a job, at its levels."""

    shares: tuple[Share, ...]
    cap_uw: int
    levels: Levels
    alone: bool

    def power_uw(self, room: Room) -> int:
        """Return their power above the floors."""
        return room.power_of(self.shares, self.cap_uw, self.levels)

    def take(self, room: Room) -> None:
        """Take these cores from the free resources."""
        room.take(self.shares, self.power_uw(room), self.alone)


@dataclass(slots=True, kw_only=True)
class Head:
    """Head of the queue: its planned start, and the free resources then."""

    waiter: WaitingJob
    shadow_ns: int
    future: Room


def held(given: Assignment, view: JobView) -> CoresAtLevels:
    """Return the resources of a job."""
    return CoresAtLevels(given.shares, given.cap_uw, given.levels, view.spec.alone)


def fits_beside(head: Head, late: Sequence[CoresAtLevels]) -> bool:
    """Return whether the head still fits at its start if the late parts are not free then."""
    if not any(part.shares for part in late):
        return True
    future = head.future
    for part in late:
        part.take(future)
    fits = head.waiter.place(future) is not None
    for part in late:
        future.give_back(part.shares, part.power_uw(future), part.alone)
    return fits


@dataclass(slots=True, kw_only=True)
class UnsharedStart:
    """Answers for one round. ``waiting`` lists the waiting jobs so far, in order, and grows.

    ``counted``: all jobs take whole nodes and request nothing else.
    """

    rules: SharingSettings
    resources: FreeResources
    now_ns: int
    kinds: Sequence[NodeKind]
    counted: bool
    waiting: Sequence[WaitingJob]
    nowhere: Set[Shape]
    """Shapes that fit nowhere in this round."""
    _starts_ns: dict[Shape, int] = field(default_factory=dict)
    _map: FreeUnitProfile | None = None
    _mapped: int = 0

    def started(self) -> None:
        """A job has started, so the reservations are outdated."""
        self._map = None

    def ends_ns(self, waiting_job: WaitingJob, asked_ns: int) -> int | None:
        """Return the end of a job if it waits; None: irrelevant, or it never starts."""
        if not self.rules.benefit and self.rules.power is not PowerSharing.WEIGH:
            return None
        start_ns = (
            self._mapped_start(waiting_job, asked_ns)
            if self.counted
            else self._free_start(waiting_job)
        )
        return None if start_ns is None else start_ns + asked_ns

    def by_turn(self, waiting_job: WaitingJob) -> tuple[int, Room]:
        """Return when a job fits next to the running jobs, and the free resources then.

        If it never fits, both are for the time after all running jobs have ended.
        """
        runs = sorted(self.resources.runs.values(), key=lambda run: run.ends_ns)
        times = sorted({max(run.ends_ns, self.now_ns) for run in runs}) or [self.now_ns]

        def future(time_ns: int) -> Room:
            room = self.resources.room.copy()
            room.at_ns = time_ns
            for run in runs:
                if run.ends_ns > time_ns:
                    break
                room.give_back(run.given.shares, run.power_uw, run.view.spec.alone)
            return room

        def fits(time_ns: int) -> bool:
            return waiting_job.place(future(time_ns)) is not None

        if self.resources.room.windows.concern(waiting_job.view.spec):
            found = next((time_ns for time_ns in times if fits(time_ns)), times[-1])
        else:
            # Ended jobs stay ended, so it fits from some time on.
            at = bisect_left(times, True, hi=len(times) - 1, key=fits)
            found = times[at]
        return found, future(found)

    def spare(self, waiting_job: WaitingJob, head: Head | None) -> Callable[[int], int]:
        """Return a function of a run time: free nodes that the head of the queue does not need."""
        any_power = self.rules.power is PowerSharing.ANY
        free = (
            self.resources.room.empty_count(waiting_job.view.spec)
            if any_power
            else self._fed_count(waiting_job)
        )
        if head is None:
            return lambda _: free
        extra = 0
        if head.waiter.view.spec.unit is SizeUnit.NODES:
            extra = max(head.future.empty_count(head.waiter.view.spec) - head.waiter.size, 0)
        shadow_ns, now_ns = head.shadow_ns, self.now_ns
        return lambda takes_ns: free if now_ns + takes_ns <= shadow_ns else min(free, extra)

    def _fed_count(self, waiting_job: WaitingJob) -> int:
        """Return the number of free nodes within the power."""
        room, spec = self.resources.room, waiting_job.view.spec
        each_uw = max(
            room.part_uw(name, spec, node.kind.cores, waiting_job.cap_uw)
            for name, node in room.specs.items()
        )
        free = room.empty_count(spec)
        return min(free, max(room.power_uw, 0) // each_uw) if each_uw else free

    def _free_start(self, waiting_job: WaitingJob) -> int:
        """Return the start by the running jobs alone; cached by shape in this round."""
        if waiting_job.shape not in self._starts_ns:
            spec, room = waiting_job.view.spec, self.resources.room
            if waiting_job.shape not in self.nowhere and waiting_job.place(room) is not None:
                start_ns = self.now_ns
            elif spec.unit is SizeUnit.CORES and not self._restricted(waiting_job):
                start_ns = self._free_on_a_node(waiting_job.size)
            else:
                start_ns = self.by_turn(waiting_job)[0]
            self._starts_ns[waiting_job.shape] = start_ns
        return self._starts_ns[waiting_job.shape]

    def _restricted(self, waiting_job: WaitingJob) -> bool:
        """Return whether other limits than cores may withhold a node from a job."""
        spec, room = waiting_job.view.spec, self.resources.room
        needed_uw = max(
            room.part_uw(node_id, spec, waiting_job.size, waiting_job.cap_uw)
            for node_id in room.specs
        )
        asks = spec.requests or spec.exclusive or room.windows.concern(spec)
        return bool(asks) or needed_uw > room.power_uw

    def _free_on_a_node(self, size: int) -> int:
        """Return when a node has ``size`` free cores by its running jobs, else when all ended."""
        found: list[int] = []
        for node_id, cpus in self.resources.room.free.items():
            free = len(cpus)
            for run in sorted(self.resources.on(node_id), key=lambda run: run.ends_ns):
                free += len(run.given.on(node_id))
                if free >= size:
                    found.append(max(run.ends_ns, self.now_ns))
                    break
        last_ns = max((run.ends_ns for run in self.resources.runs.values()), default=self.now_ns)
        return min(found, default=last_ns)

    def _mapped_start(self, waiting_job: WaitingJob, asked_ns: int) -> int | None:
        """Return the start that respects the reservations of jobs ahead; None = never."""
        if self._map is None:
            self._map, self._mapped = self._profile(waiting_job), 0
        profile, now_ns = self._map, self.now_ns
        for other in self.waiting[self._mapped : self.rules.mapped]:
            takes_ns = duration_ns(other.view, self.kinds[:1], other.size, other.cap_uw)
            start_ns = profile.earliest(other.size, takes_ns, now_ns)
            if start_ns is not None:
                profile.add(start_ns, start_ns + takes_ns, -other.size)
            self._mapped += 1
        return profile.earliest(waiting_job.size, asked_ns, now_ns)

    def _profile(self, waiting_job: WaitingJob) -> FreeUnitProfile:
        """Return the number of free nodes over time, by the running jobs alone."""
        ends: dict[NodeId, int] = {}
        for run in self.resources.runs.values():
            for share in run.given.shares:
                ends[share.node_id] = max(ends.get(share.node_id, self.now_ns), run.ends_ns)
        profile = FreeUnitProfile(self._fed_count(waiting_job), self.now_ns)
        times, free = profile.times, profile.free
        for end_ns in sorted(ends.values()):
            if end_ns == times[-1]:
                free[-1] += 1
            else:
                times.append(end_ns)
                free.append(free[-1] + 1)
        return profile
