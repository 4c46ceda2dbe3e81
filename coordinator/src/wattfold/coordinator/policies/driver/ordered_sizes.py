"""Sizes ordered with `wattfold resize`: every plan is modified to keep to them.

The policy sees such a job with a single size (`JobView.spec`) and starts it at that size. A job
that runs at another size is resized here: first on its own nodes, then on free nodes. It keeps its
level, or gets the highest level within the remaining power. Its resources are taken before any job
starts. If they are not available, the job stays as it is with the reason, and the next round tries
again. No node is reserved for it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot, Waiting
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.coordinator.policies.driver.relocation import places
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes


def with_ordered_sizes(plan: Plan, world: Snapshot, views: Sequence[JobView]) -> Plan:
    """Return the plan with the ordered sizes; ``views`` must cover all running and starting jobs.

    The jobs of ``world`` are ignored.
    """
    running = {view.job_id: view for view in views if view.current is not None}
    asked = [view for view in running.values() if view.size_asked]
    given = {assignment.job_id: assignment for assignment in plan.assignments}
    has = {job_id: given.get(job_id, view.current) for job_id, view in running.items()}
    if all(_size(has[view.job_id]) == view.size_asked for view in asked):
        return plan
    room = Room.of(world, world.now_ns)
    for job_id, held in has.items():
        _take(room, held, running[job_id])
    unmet: list[Waiting] = []
    for view in asked:
        held = has[view.job_id]
        if held is None or held.size == view.size_asked:
            continue
        _give_back(room, held, view)
        found = _resized(replace(view, current=held), room)
        if isinstance(found, str):
            unmet.append(Waiting(job_id=view.job_id, reason=found))
        has[view.job_id] = held if isinstance(found, str) else found
        _take(room, has[view.job_id], view)
    late = {waiting.job_id for waiting in unmet}
    changed = [one for job_id, one in has.items() if one and job_id not in late]
    waits = {view.job_id: view for view in views if view.current is None}
    starts = [one for one in plan.assignments if one.job_id not in running]
    why = "its planned resources go to a job that was resized with `wattfold resize`"
    kept, displaced = fitting(starts, waits, room, why)
    return replace(
        plan,
        assignments=(*changed, *kept),
        waiting=(*plan.waiting, *displaced, *unmet),
    )


def _size(assignment: Assignment | None) -> int:
    return assignment.size if assignment else 0


def _take(room: Room, assignment: Assignment | None, view: JobView) -> None:
    if assignment is not None:
        power_uw = room.given_uw(assignment)
        room.take(assignment.shares, power_uw, takes_whole_nodes(view.spec))


def _give_back(room: Room, assignment: Assignment, view: JobView) -> None:
    power_uw = room.given_uw(assignment)
    room.give_back(assignment.shares, power_uw, takes_whole_nodes(view.spec))


def _resized(view: JobView, room: Room) -> Assignment | str:
    """Return the assignment of a running job at the ordered size, or why it is impossible now."""
    size, unit, current = view.size_asked, view.spec.unit.value, view.current
    assert current is not None
    ordered = f"ordered size {size} {unit}"
    if not view.movable:
        return f"{ordered}: its nodes do not answer, or it is starting"
    shares = places(view, size, current.cap_uw, room)
    if shares is None:
        return f"{ordered}: too few are free"
    cap_uw = _fed_uw(room, replace(current, shares=shares), fixed=bool(view.spec.cap_uw))
    if cap_uw is None:
        needed_uw = room.power_of(shares, current.cap_uw, current.levels)
        return (
            f"{ordered}: needs {needed_uw / 1e6:.2f} W above the floors; "
            f"{max(room.power_uw, 0) / 1e6:.2f} W are available"
        )
    takes_ns = duration_ns(view, room.kinds_under(shares), size, cap_uw)
    return replace(
        current, size=size, cap_uw=cap_uw, shares=shares, expected_total_s=takes_ns / 1e9
    )


def _fed_uw(room: Room, wanted: Assignment, *, fixed: bool) -> int | None:
    """Return the highest level up to the wanted level within the remaining power, or None."""
    shares, cap_uw, levels = wanted.shares, wanted.cap_uw, wanted.levels
    if room.given_uw(wanted) <= room.power_uw:
        return room.held_uw(shares, cap_uw)
    low, high = 0, cap_uw // CAP_STEP_UW
    while not fixed and low < high:
        middle = (low + high + 1) // 2
        if room.power_of(shares, middle * CAP_STEP_UW, levels) <= room.power_uw:
            low = middle
        else:
            high = middle - 1
    fed_uw = room.held_uw(shares, low * CAP_STEP_UW)
    fits = not fixed and 0 < room.power_of(shares, fed_uw, levels) <= room.power_uw
    return fed_uw if fits else None


def fitting(
    starts: Iterable[Assignment], waits: dict[JobId, JobView], room: Room, reason: str
) -> tuple[list[Assignment], list[Waiting]]:
    """Return the starts that fit into the remaining resources, and the displaced jobs."""
    kept: list[Assignment] = []
    displaced: list[Waiting] = []
    for one in starts:
        free = all(share.cpus <= room.free.get(share.node_id, share.cpus) for share in one.shares)
        power_uw = room.given_uw(one)
        if not free or power_uw > room.power_uw:
            displaced.append(Waiting(job_id=one.job_id, reason=reason))
            continue
        view = waits.get(one.job_id)
        room.take(one.shares, power_uw, view is not None and takes_whole_nodes(view.spec))
        kept.append(one)
    return kept, displaced
