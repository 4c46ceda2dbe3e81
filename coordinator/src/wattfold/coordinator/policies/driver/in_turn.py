"""Last fallback of every policy: waiting jobs start in order, each at its minimum size.

A round needs a plan even if the policy of the site has failed or was late. This policy keeps every
running job as it is, and starts waiting jobs in order of priority and submission until a job does
not fit. It neither searches nor keeps state between two rounds. It shares no code with the queues
of the other policies, so it does not share their faults.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot, Waiting
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.requests import yielding
from wattfold.coordinator.policies.resources.room import Room, nothing_in_reach, takes_whole_nodes

NAME = "in-turn"
NEXT = "next in the fallback plan, but does not fit now"
LATER = "behind earlier jobs in the fallback plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurn(Policy):
    """The fallback policy of this module; it has no settings."""

    @property
    def name(self) -> str:
        """``in-turn``."""
        return NAME

    def fallback(self) -> Policy | None:
        """Return None: if this policy fails, the last plan stays."""
        return None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs, and start jobs in order while they fit."""
        del deadline_s
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        return _Round(snapshot, now_ns).plan()


class _Round:
    """The plan of one round. ``most_uw`` is the level of jobs that do not request a level."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._snapshot = snapshot
        self._room = Room.of(snapshot, now_ns)
        self._empty = Room(snapshot.nodes, snapshot.spendable_uw + snapshot.reserved_uw)
        self._most_uw = max(node.spec.kind.most_uw for node in snapshot.nodes)
        self._kinds = [node.spec.kind for node in snapshot.nodes[:1]]
        self._assignments: list[Assignment] = []
        self._waiting: list[Waiting] = []

    def plan(self) -> Plan:
        """Return the plan: running jobs first, then the queue."""
        for view in self._snapshot.jobs:
            if view.current is not None:
                power_uw = self._room.given_uw(view.current)
                self._room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
                self._assignments.append(view.current)
        queue = [view for view in self._snapshot.jobs if view.current is None]
        queue.sort(key=lambda view: (-view.spec.priority, view.submitted_ns))
        waits = {view.job_id for view in queue}
        blocked = False
        for view in queue:
            if blocked:
                self._wait(view, LATER)
            elif view.yields_to in waits:
                self._wait(view, yielding(view))
            else:
                blocked = self._blocks(view)
        return Plan(
            assignments=tuple(self._assignments),
            waiting=tuple(self._waiting),
            solver="none",
            outcome="feasible",
        )

    def _blocks(self, view: JobView) -> bool:
        """Start a job if it fits; return whether it blocks all jobs behind it."""
        spec, size, room = view.spec, view.spec.min_size, self._room
        cap_uw = spec.cap_uw or self._most_uw
        takes_ns = room.takes_ns(view, size, cap_uw)
        shares = room.find_fed(spec, size, cap_uw, takes_ns)
        if shares is not None:
            kinds, held_uw = room.kinds_under(shares) or self._kinds, room.held_uw(shares, cap_uw)
            lasts_ns = duration_ns(view, kinds, size, cap_uw)
            given = Assignment(
                job_id=view.job_id,
                size=size,
                cap_uw=held_uw,
                shares=shares,
                expected_total_s=lasts_ns / NS_PER_S,
                levels=spec.levels,
            )
            room.take(shares, room.given_uw(given), takes_whole_nodes(spec))
            self._assignments.append(given)
            return False
        if kept := room.kept(spec, size, cap_uw, takes_ns):
            self._wait(view, kept)
            return False
        if self._empty.find_fed(spec, size, cap_uw) is None:
            asked = size_text(spec, size)
            self._wait(view, f"requests {asked}, more than the machine can hold now", never=True)
            return False
        self._wait(view, NEXT)
        return True

    def _wait(self, view: JobView, reason: str, *, never: bool = False) -> None:
        self._waiting.append(Waiting(job_id=view.job_id, reason=reason, never=never))
