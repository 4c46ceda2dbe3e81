"""Requests of jobs beyond cores, for policies that count only cores and watts.

Running jobs keep their memory and GPUs, so it is known before a round whether a waiting job can get
its own. A job that cannot is excluded from a round that chooses among all jobs at once. Otherwise
the policy could reserve cores and watts that this job cannot use. `placement` chooses the node of
each job, one job after another. If two jobs of a round need the last memory of a node, the second
waits for the next round.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.jobs.spec import JobSpec, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot, Waiting
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes
from wattfold.coordinator.policies.resources.stock import Stock, largest_size, wanted_text


def startable(snapshot: Snapshot) -> tuple[Snapshot, tuple[Waiting, ...]]:
    """Return the snapshot without jobs whose requests cannot be met now, and their reasons.

    If there are no such jobs, the snapshot is returned unchanged.
    """
    windows = Windows(snapshot.reservations)
    asking = [
        view
        for view in snapshot.jobs
        if view.current is None
        and (view.spec.requests or windows.concern(view.spec) or view.yields_to)
    ]
    if not asking:
        return snapshot, ()
    room = _after(snapshot)
    waiting = [found for view in asking if (found := _obstacle(view, room, snapshot))]
    gone = {one.job_id for one in waiting}
    jobs = tuple(view for view in snapshot.jobs if view.job_id not in gone)
    return replace(snapshot, jobs=jobs), tuple(waiting)


def yielding(view: JobView) -> str:
    """Return the reason of a preempted job that waits for the start of the preempting job."""
    return f"preempted for job {view.yields_to}, which has not started"


def with_missing(plan: Plan, snapshot: Snapshot, chosen: Container[JobId] = ()) -> Plan:
    """Return the plan, with missing memory, GPUs or features added to the reasons of jobs.

    For a job that can never start this becomes the only reason. The reasons of jobs in ``chosen``
    are unchanged unless they can never start, because the policy chose to let them wait.
    """
    asking = {v.job_id: v for v in snapshot.jobs if v.current is None and v.spec.requests}
    if not asking:
        return plan
    stock = Stock(snapshot.nodes)
    for assignment in plan.assignments:
        for share in assignment.shares:
            stock.take(share)
    # Jobs with equal requests lack the same resources.
    missing: dict[tuple[object, ...], tuple[str, bool]] = {}
    waiting = []
    for one in plan.waiting:
        view = asking.get(one.job_id)
        if view is not None:
            asked = _asked(view.spec)
            if asked not in missing:
                told = stock.missing(view.spec)
                missing[asked] = told, bool(told) and _never(view, snapshot, stock)
            reason, never = missing[asked]
            if reason and (never or not one.never) and one.reason != reason:
                if never:
                    one = replace(one, reason=reason, never=True)
                elif one.job_id not in chosen:
                    one = replace(one, reason=f"{one.reason}; {reason}")
        waiting.append(one)
    return replace(plan, waiting=tuple(waiting))


def _asked(spec: JobSpec) -> tuple[object, ...]:
    """Return all properties that `Stock.missing` and `_never` use."""
    sizes = spec.unit, spec.size_min, spec.unit_cores, spec.spread
    return *sizes, spec.memory_bytes, spec.gpus, spec.node_filters


def _after(snapshot: Snapshot) -> Room:
    """Return the free resources if all shrinkable running jobs shrink to their minimum sizes."""
    room = Room.of(snapshot, snapshot.now_ns)
    for view in snapshot.jobs:
        if view.current is not None:
            room.take(view.current.shares, 0, takes_whole_nodes(view.spec))
    for view in snapshot.jobs:
        if view.current is not None and _shrinks(view):
            share = view.current.shares[0]
            spare = len(share.cpus) - view.spec.min_size
            if share.node_id in room.free and spare > 0:
                room.free[share.node_id] |= share.cpus.take(spare)
    return room


def _shrinks(view: JobView) -> bool:
    spec = view.spec
    resized = spec.kind.resized and spec.mode is not ResizeMode.FIXED
    return resized and view.movable and not takes_whole_nodes(spec)


def _obstacle(view: JobView, room: Room, snapshot: Snapshot) -> Waiting | None:
    """Return why a job cannot start under any choice of the policy, or None if it can."""
    spec, job_id = view.spec, view.job_id
    if view.yields_to:
        return Waiting(job_id=job_id, reason=yielding(view))
    missing = room.stock.missing(spec)
    if missing:
        return Waiting(job_id=job_id, reason=missing, never=_never(view, snapshot, room.stock))
    able = [node.spec.node_id for node in room.stock.nodes_for(spec)]
    takes_ns = room.takes_ns_at_most(view)
    if _enough_cores(view, room.open(spec, takes_ns, able), room):
        return None
    if why := _kept(view, able, room, takes_ns):
        never = bool(spec.reservation) and room.windows.own(spec) is None
        return Waiting(job_id=job_id, reason=why, never=never)
    if not spec.requests:
        return None  # Only cores are missing; the policy counts them and reports the reason.
    where = f"the nodes with {wanted_text(spec)}"
    return Waiting(job_id=job_id, reason=f"needs {size_text(spec, spec.size_min)} free on {where}")


def _kept(view: JobView, able: list[NodeId], room: Room, takes_ns: int) -> str:
    """Return the reservation that withholds otherwise sufficient nodes from a job; else ""."""
    spec, windows, ends_ns = view.spec, room.windows, room.at_ns + takes_ns
    own = windows.own(spec)
    if spec.reservation and own is not None:
        there = [node_id for node_id in able if node_id in own.nodes]
        if told := windows.why(spec, there, room.at_ns, ends_ns):
            return told
        return f"needs {size_text(spec, spec.size_min)} free on the nodes of {own}"
    if not spec.reservation and not _enough_cores(view, able, room):
        return ""
    free = [n for n in able if _has_cores(view, n, room)]
    return windows.why(spec, free, room.at_ns, ends_ns)


def _has_cores(view: JobView, node_id: NodeId, room: Room) -> bool:
    one = room.free[node_id]
    if takes_whole_nodes(view.spec):
        return one == room.specs[node_id].cpus
    if view.spec.unit is SizeUnit.UNITS:
        return len(one) >= view.spec.unit_cores
    return len(one) >= view.spec.min_size


def _never(view: JobView, snapshot: Snapshot, stock: Stock) -> bool:
    if view.spec.unit is SizeUnit.UNITS:
        return largest_size(view.spec, snapshot.nodes) < view.spec.size_min
    return stock.able(view.spec) < (view.spec.size_min if view.spec.unit is SizeUnit.NODES else 1)


def _enough_cores(view: JobView, able: list[NodeId], room: Room) -> bool:
    spec = view.spec
    there = [node_id for node_id in able if _has_cores(view, node_id, room)]
    if spec.unit is SizeUnit.NODES:
        return len(there) >= spec.size_min
    if spec.unit is SizeUnit.UNITS:
        return room.units_free(spec, there) >= spec.size_min
    return any(len(room.free[node_id]) >= spec.min_size for node_id in there)
