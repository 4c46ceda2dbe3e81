"""Which nodes and cores a job gets, once a policy has chosen its size.

Running jobs stay where they are: one that shrinks keeps some of its cores, one that grows takes
free cores of its node. New jobs go to the node that they fill best (fewest cores left over), so
that large holes stay whole; ties go to the node that comes first. Which cores of a node, by sockets
and siblings, is told by `core_choice`. All in exact core sets: what comes out is disjoint by
construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.job import JobSpec, Share, SizeUnit
from wattfold.coordinator.core.node import NodeSpec
from wattfold.coordinator.core.plan import JobView, NodeView, Plan, Snapshot, Waiting
from wattfold.coordinator.core.targets import dynamic_uw
from wattfold.coordinator.policies.core_choice import NodeCores, Want, choose, distribute


class Room:
    """Free cores of every node and free power above the floors, to be taken from.

    ``power_uw`` may be negative (a budget just lowered): then nothing that draws power fits.
    """

    def __init__(self, nodes: Sequence[NodeView], power_uw: int) -> None:
        self.specs: dict[NodeId, NodeSpec] = {n.spec.node_id: n.spec for n in nodes}
        self.whole: dict[NodeId, CpuSet] = {n.spec.node_id: n.spec.cpus - n.blocked for n in nodes}
        self.free: dict[NodeId, CpuSet] = dict(self.whole)
        self.avoid: dict[NodeId, CpuSet] = {n.spec.node_id: n.residual for n in nodes if n.residual}
        self.power_uw = power_uw

    def copy(self) -> Room:
        """An independent copy."""
        twin = Room((), self.power_uw)
        twin.specs, twin.whole, twin.free = self.specs, self.whole, dict(self.free)
        twin.avoid = self.avoid
        return twin

    def cores_of(self, node_id: NodeId) -> NodeCores:
        """What there is to know of the cores of a node."""
        return NodeCores(
            topology=self.specs[node_id].topology, avoid=self.avoid.get(node_id, CpuSet())
        )

    def power_of(self, shares: Iterable[Share], cap_uw: int) -> int:
        """Power above the floors of these cores at a level, microwatts."""
        return sum(
            dynamic_uw(self.specs[s.node_id], len(s.cpus), cap_uw)
            for s in shares
            if s.node_id in self.specs
        )

    def take(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Gives these cores and this power away; ``alone`` takes the rest of the nodes too."""
        for share in shares:
            if share.node_id in self.free:
                left = self.free[share.node_id] - share.cpus
                self.free[share.node_id] = CpuSet() if alone else left
        self.power_uw -= power_uw

    def give_back(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Undoes `take`."""
        for share in shares:
            if share.node_id in self.free:
                back = self.whole[share.node_id] if alone else share.cpus
                self.free[share.node_id] = self.free[share.node_id] | back
        self.power_uw += power_uw

    def find(self, spec: JobSpec, size: int) -> tuple[Share, ...] | None:
        """Cores for a new job, None if there is no place. Power is not looked at."""
        if spec.unit is SizeUnit.NODES:
            return self._whole_nodes(size)
        fits = [
            (len(self.free[node_id]) - size, node_id)
            for node_id, node in self.specs.items()
            if len(self.free[node_id]) >= size
            and (not spec.exclusive or self.free[node_id] == node.cpus)
        ]
        if not fits:
            return None
        best = min(fits, key=lambda entry: entry[0])[1]
        return (
            Share(node_id=best, cpus=choose(size, self.free[best], CpuSet(), self.cores_of(best))),
        )

    def _whole_nodes(self, size: int) -> tuple[Share, ...] | None:
        empty = [n for n, spec in self.specs.items() if self.free[n] == spec.cpus]
        if len(empty) < size:
            return None
        return tuple(Share(node_id=n, cpus=self.specs[n].cpus) for n in empty[:size])


def takes_whole_nodes(spec: JobSpec) -> bool:
    """Whether nobody else may be on the job's nodes."""
    return spec.exclusive or spec.unit is SizeUnit.NODES


def resize_in_place(
    running: Sequence[tuple[JobView, int]],
    room: Room,
) -> dict[str, tuple[Share, ...]]:
    """New cores of the running jobs at their new sizes; first all that shrink, then the others.

    ``room`` holds everything else and is left with what remains free. A job that cannot grow as
    far as asked (blocked cores) gets what there is.
    """
    shares: dict[str, tuple[Share, ...]] = {}
    wants: dict[NodeId, list[Want]] = {}
    for view, size in running:
        assert view.current is not None
        room.take(view.current.shares, 0, takes_whole_nodes(view.spec))
        if view.spec.unit is SizeUnit.NODES or size == view.current.size:
            shares[view.job_id] = view.current.shares
        elif view.spec.exclusive:
            shares[view.job_id] = (_alone(view.current.shares[0], size, room),)
        else:
            share = view.current.shares[0]
            want = Want(job=view.job_id, size=size, held=share.cpus)
            wants.setdefault(share.node_id, []).append(want)
    for node_id, listed in wants.items():
        for job, cpus in _distributed(node_id, listed, room).items():
            shares[job] = (Share(node_id=node_id, cpus=cpus),)
    return shares


def _distributed(node_id: NodeId, wants: list[Want], room: Room) -> dict[JobId, CpuSet]:
    usable = room.free[node_id]
    for want in wants:
        usable = usable | want.held
    given = distribute(wants, usable, room.cores_of(node_id))
    for cpus in given.values():
        usable = usable - cpus
    room.free[node_id] = usable
    return given


def _alone(share: Share, size: int, room: Room) -> Share:
    want = Want(job=JobId(""), size=size, held=share.cpus)
    usable = room.whole[share.node_id] | share.cpus
    cores = distribute([want], usable, room.cores_of(share.node_id))
    return Share(node_id=share.node_id, cpus=cores[want.job])


def nothing_in_reach(snapshot: Snapshot) -> Plan:
    """The plan without nodes: what runs goes on, the others wait."""
    kept = tuple(view.current for view in snapshot.jobs if view.current is not None)
    waiting = tuple(
        Waiting(job_id=view.job_id, reason="no node is in reach")
        for view in snapshot.jobs
        if view.current is None
    )
    return Plan(assignments=kept, waiting=waiting, solver="none", outcome="optimal")


def largest_size(spec: JobSpec, nodes: Sequence[NodeView]) -> int:
    """The most a job of this kind could ever get on these nodes."""
    if spec.unit is SizeUnit.NODES:
        return len(nodes)
    return max((len(node.spec.cpus) for node in nodes), default=0)
