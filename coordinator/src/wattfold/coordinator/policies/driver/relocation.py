"""Cores for a running job whose size changes by a restart or by a map over its nodes.

The job keeps its first node, on which its first process runs. Its other nodes must be empty, and
within its reach if it has one. A job on cores stays on its node if that has enough cores, and
otherwise moves to another node.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.resources.resizing import resize_in_place
from wattfold.coordinator.policies.resources.room import Room


def places(
    view: JobView, size: int, cap_uw: int, room: Room, among: Iterable[NodeId] | None = None
) -> tuple[Share, ...] | None:
    """Return cores for a running job at a size, or None.

    In ``room`` the job's current resources are free. More nodes come from ``among``; None = any.
    Power is not checked.
    """
    current = view.current
    assert current is not None
    takes_ns = room.takes_ns(view, size, cap_uw)
    if view.spec.unit is SizeUnit.NODES:
        if not view.nodes_may_change:
            return None
        here = [share for share in current.shares if share.node_id in room.free]
        if view.reach:
            # The job keeps its first node and releases the last nodes of its reach.
            here.sort(key=lambda share: view.reach.index(share.node_id))
        own = tuple(here[:size])
        kept = {share.node_id for share in own}
        others = [n for n in (room.specs if among is None else among) if n not in kept]
        if view.reach:
            others = [node_id for node_id in others if node_id in view.reach]
        missing = size - len(own)
        more = room.find(view.spec, missing, others, takes_ns) if missing else ()
        return None if more is None else own + more
    same = resize_in_place([(view, size)], room.copy())[view.job_id]
    if len(same[0].cpus) == size:
        return same
    return room.find(view.spec, size, takes_ns=takes_ns) if view.nodes_may_change else None
