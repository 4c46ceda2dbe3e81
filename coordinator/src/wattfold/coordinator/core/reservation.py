"""Reservations: nodes that are kept for some jobs, or for none, from a start to an end.

Who plans asks `Windows` for every job and node it thinks of, who takes a plan asks it again. All
goes by expected ends: the time limit of a job, else what it is estimated to take. What runs longer
than that is not known before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import JobSpec

RESERVATIONS_MAX = 256
"""A site has no more at a time: all of them are looked at in every round."""
ENDLESS_NS = 2**63 - 1
SLACK_NS = 60_000_000_000
"""A job as long as its reservation may still start while this one has just begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes that are kept from ``start_ns`` up to ``end_ns``, in coordinator time.

    They are for jobs that name it, of ``users`` alone where there are any, and for all jobs of
    ``queue``. A ``maintenance`` window is for no job at all; with ``end_jobs`` what still runs at
    its start is ended. ``when`` says for people, by the calendar, from when to when.
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
        """Whether a job may be on its nodes while it lasts."""
        if self.maintenance:
            return False
        if spec.reservation:
            return spec.reservation == self.name
        return bool(self.queue) and self._takes(spec.user, spec.queue)

    def refusal(self, user: str, queue: str) -> str:
        """Why an account may not name it for a job of a queue, for people; empty if it may."""
        if self.maintenance:
            return f"{self.name} is a maintenance window; no job may use it"
        if self._takes(user, queue):
            return ""
        whose = [f"of {', '.join(self.users)}"] if self.users else []
        whose += [f"of queue {self.queue}"] if self.queue else []
        return f"reservation {self.name} is for jobs {' '.join(whose)}"

    def meets(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it lasts at any time from a begin up to an end."""
        return begin_ns < self.end_ns and self.start_ns < end_ns

    def _takes(self, user: str, queue: str) -> bool:
        return (not self.users or user in self.users) and self.queue in ("", queue)

    def __str__(self) -> str:
        """For people: what it is for, and when."""
        what = f"maintenance ({self.name})" if self.maintenance else f"reservation {self.name}"
        return f"{what} {self.when}" if self.when else what


class Closed(NamedTuple):
    """Nodes on which a job may not be, or not begin, at ``from_ns`` or later, up to ``to_ns``."""

    from_ns: int
    to_ns: int
    nodes: tuple[NodeId, ...]


class Windows:
    """All reservations there are, asked node by node: the one place that says where a job may be.

    A job that names a reservation is on its nodes alone, and from its start up to its end.
    """

    def __init__(self, reservations: Iterable[Reservation] = ()) -> None:
        self.reservations = tuple(reservations)
        self._on: dict[NodeId, list[Reservation]] = {}
        self._named = {one.name: one for one in self.reservations}
        for one in self.reservations:
            for node_id in one.nodes:
                self._on.setdefault(node_id, []).append(one)

    def concern(self, spec: JobSpec) -> bool:
        """Whether there is anything to ask for a job."""
        return bool(self.reservations or spec.reservation)

    def own(self, spec: JobSpec) -> Reservation | None:
        """The reservation a job names, None if there is none or not any more."""
        return self._named.get(spec.reservation)

    def open(self, spec: JobSpec, node_id: NodeId, begin_ns: int, end_ns: int) -> bool:
        """Whether a job may be on a node from a begin to its expected end."""
        if spec.reservation and not self._inside(spec, node_id, begin_ns, end_ns):
            return False
        return self.obstacle(spec, node_id, begin_ns, end_ns) is None

    def spans(self, spec: JobSpec, nodes: Iterable[NodeId]) -> list[Closed]:
        """When a job may not be on which of these nodes: what `open` says, for who plans ahead."""
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
        """When a job that takes so long may not begin on which of these nodes, by `spans`."""
        return [one._replace(from_ns=one.from_ns - takes_ns + 1) for one in self.spans(spec, nodes)]

    def obstacle(
        self, spec: JobSpec, node_id: NodeId, begin_ns: int, end_ns: int
    ) -> Reservation | None:
        """The first reservation of a node that a job has no right to and would be there in."""
        met = [
            one
            for one in self._on.get(node_id, ())
            if one.meets(begin_ns, end_ns) and not one.admits(spec)
        ]
        return min(met, key=lambda one: one.start_ns, default=None)

    def why(self, spec: JobSpec, nodes: Iterable[NodeId], begin_ns: int, end_ns: int) -> str:
        """Why a job may not be on these nodes, for people; empty if it may."""
        if spec.reservation and (outside := self._outside(spec, begin_ns, end_ns)):
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

    def _outside(self, spec: JobSpec, begin_ns: int, end_ns: int) -> str:
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
        if self._outside(spec, begin_ns, end_ns):
            return False
        return node_id in self._named[spec.reservation].nodes
