"""Nodes and power held for a job that has waited too long, regardless of the policy's preference.

Policies that weigh jobs against each other may never start a job on many nodes, because later
narrow jobs take each node that becomes free. Such a policy has a *patience*: a job that has waited
this many times its estimate becomes the *held-for* job. It starts as soon as it fits next to the
running jobs. Until then resources are reserved for it, as EASY does for the head of its queue. Its
shadow time is the earliest time at which it fits, by the expected ends of running jobs. Starts and
growths of a plan that would use these resources beyond that time are withdrawn.

The oldest of several such jobs goes first. Everything follows from the current state of the jobs,
so no state is kept between two rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.backfill.candidates import Candidate
from wattfold.coordinator.policies.backfill.easy_search import EasySearch, EasySettings
from wattfold.coordinator.policies.port import NamedJobs, Site
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes

HELD = "has waited too long, so nodes and power are held for it until it fits"
LEVELS = 6
"""Number of caps tried for a job, if running jobs may change their caps later."""


@dataclass(slots=True)
class AssignmentResult:
    """Result for a plan: assignments, and the jobs whose start was withdrawn."""

    assignments: list[Assignment]
    withdrawn: list[int] = field(default_factory=list)
    reason: str = ""
    begun: tuple[int, Assignment] | None = None
    """The job, if it starts now."""
    held: tuple[int, int] | None = None
    """The job and its shadow time, if it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """New resources of a job in a plan: the job starts, or it runs with other resources."""

    job: int
    view: JobView
    """The job with its current resources."""
    given: Assignment


class HeldNodes(EasySearch):
    """Search for a place of one job next to the running jobs."""

    def __init__(
        self,
        *,
        jobs: NamedJobs,
        site: Site,
        running: Sequence[int],
        job: int,
        now_ns: int,
        cap_uw: int | None,
    ) -> None:
        super().__init__(
            jobs=jobs,
            site=site,
            running=running,
            waiting=[job],
            settings=EasySettings(size="min", cap_uw=cap_uw, backfill=True),
            now_ns=now_ns,
        )

    def outcome(self, changes: Sequence[ResourceChange]) -> AssignmentResult | None:
        """Return the modified plan, or None if no place for the job is known."""
        (head,) = self._waiting
        if not self._may_start(head):
            return None
        shares = head.place(self._room)
        if shares is not None:
            return self._started(head, shares, changes)
        shadow_ns, future = self._shadow(head)
        if not shadow_ns:
            return None
        reason = f"its planned resources are held for job {head.view.job_id}, which waits too long"
        outcome = AssignmentResult([], reason=reason, held=(head.job, shadow_ns))
        ends_ns = {entry.job: entry.ends_ns for entry in self._running}
        for one in _in_turn(changes):
            runs = one.view.current is not None
            if runs:
                ends = ends_ns[one.job]
            else:
                kinds = self._room.kinds_under(one.given.shares) or self._kinds[:1]
                given = one.given
                ends = self._now_ns + duration_ns(one.view, kinds, given.size, given.cap_uw)
            if ends > shadow_ns:
                beside = future.copy()
                self._take_more(beside, one)
                if head.place(beside) is None:
                    _withdraw(outcome, one)
                    continue
                future = beside
            outcome.assignments.append(one.given)
        return outcome

    def _started(
        self, head: Candidate, shares: tuple[Share, ...], changes: Sequence[ResourceChange]
    ) -> AssignmentResult:
        """Start the job, and keep the parts of the plan that fit next to it."""
        room, view = self._room, head.view
        cap_uw = room.held_uw(shares, head.cap_uw)
        power_uw = room.power_of(shares, cap_uw, view.spec.levels)
        room.take(shares, power_uw, takes_whole_nodes(view.spec))
        kinds = room.kinds_under(shares) or self._kinds[:1]
        given = Assignment(
            job_id=view.job_id,
            size=head.size,
            cap_uw=cap_uw,
            shares=shares,
            expected_total_s=duration_ns(view, kinds, head.size, cap_uw) / 1e9,
            levels=view.spec.levels,
        )
        reason = f"its planned resources go to job {view.job_id}, which waited too long"
        outcome = AssignmentResult([given], reason=reason, begun=(head.job, given))
        for one in _in_turn(changes):
            if self._fits(room, one):
                self._take_more(room, one)
                outcome.assignments.append(one.given)
            else:
                _withdraw(outcome, one)
        return outcome

    def _fits(self, room: Room, change: ResourceChange) -> bool:
        more = _more(change)
        free = all(
            share.cpus <= room.free.get(share.node_id, share.cpus)
            and set(share.gpus) <= set(room.stock.free_gpus(share.node_id))
            for share in more
        )
        return free and self._more_uw(room, change) <= max(room.power_uw, 0)

    def _take_more(self, room: Room, change: ResourceChange) -> None:
        room.take(_more(change), self._more_uw(room, change), takes_whole_nodes(change.view.spec))

    def _more_uw(self, room: Room, change: ResourceChange) -> int:
        before = change.view.current
        return room.given_uw(change.given) - (room.given_uw(before) if before else 0)


def held_for(
    views: Mapping[int, JobView],
    impatient: Iterable[int],
    changes: Sequence[ResourceChange],
    caps_uw: Sequence[int],
    search: SearchParts,
) -> AssignmentResult | None:
    """Return the plan modified for the first impatient job with a place; None = unchanged.

    ``caps_uw`` are the levels to try, the lowest first: the job starts at the highest level within
    the power.
    """
    starts = {one.job for one in changes if one.view.current is None}
    for job in impatient:
        view = views[job]
        if job in starts:
            return None  # The next job follows after this job has started.
        if view.yields_to or view.spec.reservation:
            continue
        outcome: AssignmentResult | None = None
        for cap_uw in caps_uw:
            place = HeldNodes(
                jobs=search.jobs,
                site=search.site,
                running=search.running,
                job=job,
                now_ns=search.now_ns,
                cap_uw=cap_uw,
            )
            better = place.outcome(changes)
            if better is None or (outcome is not None and better.begun is None):
                break
            outcome = better
            if outcome.begun is None:
                break
        if outcome is not None:
            return outcome
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParts:
    """Input of the search: nodes and power, and the jobs that run before the plan."""

    jobs: NamedJobs
    site: Site
    running: Sequence[int]
    now_ns: int


def levels_uw(site: Site, *, change_later: bool) -> list[int]:
    """Return the caps to try for a job, the lowest first; a single cap if caps cannot change."""
    high = max(node.spec.kind.most_uw for node in site.nodes)
    if not change_later:
        return [high]
    low = min(node.spec.kind.lowest_uw for node in site.nodes)
    return [low + (high - low) * step // (LEVELS - 1) for step in range(LEVELS)]


def _in_turn(changes: Sequence[ResourceChange]) -> list[ResourceChange]:
    """Sort changes: running jobs first, and among them shrinking before growing jobs."""

    def turn(change: ResourceChange) -> tuple[bool, bool]:
        return change.view.current is None, bool(_more(change))

    return sorted(changes, key=turn)


def _more(change: ResourceChange) -> tuple[Share, ...]:
    """Return the additional resources of a job."""
    before = change.view.current
    if before is None:
        return change.given.shares
    had = {share.node_id: share.cpus for share in before.shares}
    shares = (
        replace(s, cpus=s.cpus - had.get(s.node_id, CpuSet()), memory_bytes=0, gpus=())
        for s in change.given.shares
    )
    return tuple(share for share in shares if share.cpus)


def _withdraw(outcome: AssignmentResult, change: ResourceChange) -> None:
    if change.view.current is not None:
        outcome.assignments.append(change.view.current)
    else:
        outcome.withdrawn.append(change.job)
