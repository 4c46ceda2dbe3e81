"""Reservations: nodes reserved for some jobs, or closed to all jobs, from a start to an end.

Policies ask `Windows` for every job and node that they consider; the applier asks it again for each
plan. All answers use the expected end of a job: its time limit, or else its estimated run time. A
job may still run longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spec import JobSpec

RESERVATIONS_MAX = 256
"""Maximum number of reservations of a site: every round examines all of them."""
ENDLESS_NS = 2**63 - 1
SLACK_NS = 60_000_000_000
"""A job as long as its reservation may still start this long after the start of the reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes reserved from ``start_ns`` up to ``end_ns``, in coordinator time.

    A reservation admits the jobs that name it, of ``users`` only if there are any, and all jobs of
    ``queue``. A ``maintenance`` window admits no job; with ``end_jobs`` the jobs that still run at
    its start are ended. ``when`` is the time span as text, in calendar time.
    """

    name: str
    nodes: tuple[NodeId, ...]
    start_ns: int
    end_ns: int
    users: tuple[str, ...] = ()
    queue: str = ""
    maintenance: bool = False
    end_jobs: bool = False
    reason: str = ""
    when: str = ""

    def admits(self, spec: JobSpec) -> bool:
        """Whether a job may be on its nodes during the reservation."""
        if self.maintenance:
            return False
        if spec.reservation:
            return spec.reservation == self.name
        return bool(self.queue) and self._takes(spec.user, spec.queue)

    def refusal(self, user: str, queue: str) -> str:
        """Return why a user may not use it for a job of a queue, or an empty string."""
        if self.maintenance:
            return f"{self.name} is a maintenance window; no job may use it"
        if self._takes(user, queue):
            return ""
        whose = [f"of {', '.join(self.users)}"] if self.users else []
        whose += [f"of queue {self.queue}"] if self.queue else []
        return f"reservation {self.name} is for jobs {' '.join(whose)}"

    def meets(self, begin_ns: int, end_ns: int) -> bool:
        """Whether the reservation overlaps the time from ``begin_ns`` to ``end_ns``."""
        return begin_ns < self.end_ns and self.start_ns < end_ns

    def _takes(self, user: str, queue: str) -> bool:
        return (not self.users or user in self.users) and self.queue in ("", queue)

    def __str__(self) -> str:
        """Return its purpose and time as a text."""
        what = f"maintenance ({self.name})" if self.maintenance else f"reservation {self.name}"
        return f"{what} {self.when}" if self.when else what


class Closed(NamedTuple):
    """Nodes that are closed to a job, or to its start, from ``from_ns`` to ``to_ns``."""

    from_ns: int
    to_ns: int
    nodes: tuple[NodeId, ...]


class Windows:
    """All reservations, by node. Only this class decides where reservations let a job run.

    A job that names a reservation runs only on its nodes, from its start to its end.
    """

    def __init__(self, reservations: Iterable[Reservation] = ()) -> None:
        self.reservations = tuple(reservations)
        self._on: dict[NodeId, list[Reservation]] = {}
        self._named = {one.name: one for one in self.reservations}
        for one in self.reservations:
            for node_id in one.nodes:
                self._on.setdefault(node_id, []).append(one)

    def concern(self, spec: JobSpec) -> bool:
        """Whether reservations may restrict a job."""
        return bool(self.reservations or spec.reservation)

    def own(self, spec: JobSpec) -> Reservation | None:
        """Return the reservation that a job names, if it still exists."""
        return self._named.get(spec.reservation)

    def open(self, spec: JobSpec, node_id: NodeId, begin_ns: int, end_ns: int) -> bool:
        """Whether a job may be on a node from ``begin_ns`` to its expected end."""
        if spec.reservation and not self._inside(spec, node_id, begin_ns, end_ns):
            return False
        return self.obstacle(spec, node_id, begin_ns, end_ns) is None

    def spans(self, spec: JobSpec, nodes: Iterable[NodeId]) -> list[Closed]:
        """Return the times at which nodes are closed to a job. Agrees with `open`; for planners."""
        every = tuple(nodes)
        found = [
            Closed(one.start_ns, one.end_ns, one.nodes)
            for one in self.reservations
            if not one.admits(spec)
        ]
        if not spec.reservation:
            return found
        own = self.own(spec)
        if own is None:
            return [Closed(0, ENDLESS_NS, every)]
        others = tuple(node_id for node_id in every if node_id not in own.nodes)
        before = Closed(0, own.start_ns, every)
        after = Closed(own.end_ns + SLACK_NS, ENDLESS_NS, every)
        return [*found, before, after, Closed(0, ENDLESS_NS, others)]

    def closed(self, spec: JobSpec, takes_ns: int, nodes: Iterable[NodeId]) -> list[Closed]:
        """Return the times at which a job of this run time must not start on nodes, by `spans`."""
        return [one._replace(from_ns=one.from_ns - takes_ns + 1) for one in self.spans(spec, nodes)]

    def obstacle(
        self, spec: JobSpec, node_id: NodeId, begin_ns: int, end_ns: int
    ) -> Reservation | None:
        """Return the earliest overlapping reservation of a node that does not admit the job."""
        met = [
            one
            for one in self._on.get(node_id, ())
            if one.meets(begin_ns, end_ns) and not one.admits(spec)
        ]
        return min(met, key=lambda reservation: reservation.start_ns, default=None)

    def why(self, spec: JobSpec, nodes: Iterable[NodeId], begin_ns: int, end_ns: int) -> str:
        """Return why a job may not be on these nodes, or an empty string."""
        if spec.reservation and (outside := self._outside_reservation(spec, begin_ns, end_ns)):
            return outside
        for node_id in nodes:
            one = self.obstacle(spec, node_id, begin_ns, end_ns)
            if one is not None:
                return (
                    f"node {node_id} {'is reserved for' if one.maintenance else 'belongs to'} {one}"
                )
            if spec.reservation and node_id not in self._named[spec.reservation].nodes:
                return f"node {node_id} is not in reservation {spec.reservation}"
        return ""

    def _outside_reservation(self, spec: JobSpec, begin_ns: int, end_ns: int) -> str:
        own = self.own(spec)
        if own is None:
            return f"reservation {spec.reservation} is over or was cancelled"
        if begin_ns < own.start_ns:
            return f"{own} has not started"
        if end_ns > own.end_ns + SLACK_NS:
            left_s, takes_s = (own.end_ns - begin_ns) / 1e9, (end_ns - begin_ns) / 1e9
            return f"is expected to run {takes_s:.0f} s, but only {left_s:.0f} s of {own} remain"
        return ""

    def _inside(self, spec: JobSpec, node_id: NodeId, begin_ns: int, end_ns: int) -> bool:
        if self._outside_reservation(spec, begin_ns, end_ns):
            return False
        return node_id in self._named[spec.reservation].nodes
