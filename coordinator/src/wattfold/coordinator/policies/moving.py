"""Where a running job goes that is given another size by a restart, or by a map over its nodes.

It keeps the first of its nodes, on which its first process runs, and gets others that are empty,
those of its reach if it has one. On cores it stays on its node where that has so many, and goes to
another one else.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Share, SizeUnit
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.placement import Room, resize_in_place


def places(
    view: JobView, size: int, cap_uw: int, room: Room, among: Iterable[NodeId] | None = None
) -> tuple[Share, ...] | None:
    """Cores for a running job at a size; None if there are none.

    ``room`` has what the job has now as free; more nodes come from ``among``, None = any. Power is
    not looked at.
    """
    current = view.current
    assert current is not None
    takes_ns = room.takes_ns(view, size, cap_uw)
    if view.spec.unit is SizeUnit.NODES:
        if not view.nodes_may_change:
            return None
        here = [share for share in current.shares if share.node_id in room.free]
        if view.reach:
            # Its first node stays its own; of the others it gives back the last of its reach.
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
