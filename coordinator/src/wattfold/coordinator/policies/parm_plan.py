"""From PARM's choice to a plan: nodes and cores of every job, and why the others wait.

Running jobs stay where they are. Which node a new job gets is decided here, after the choice; one
that finds no place at its size takes the greatest smaller one that does. Where nodes are unlike it
looks among those of the kind that was chosen, then, after all others, anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wattfold.coordinator.core.job import Assignment, Share, SizeUnit
from wattfold.coordinator.core.plan import Plan, Snapshot, Waiting
from wattfold.coordinator.policies.estimates import run_time_s
from wattfold.coordinator.policies.parm_menu import Menu, Option
from wattfold.coordinator.policies.placement import Room, resize_in_place, takes_whole_nodes
from wattfold.coordinator.solvers.problem import Solution

Finds = Callable[[Menu, Option, int, Room], tuple[Share, ...] | None]
Chosen = list[tuple[Menu, Option | None]]
"""Every job and its option, None = it waits."""


def placed(chosen: Chosen, room: Room) -> tuple[list[Assignment], list[Waiting]]:
    """Assignments of all jobs chosen, and the reasons of the others.

    ``room`` holds what jobs that are not planned for leave; it is used up.
    """
    assignments: list[Assignment] = []
    running = [(m, o) for m, o in chosen if m.view.current is not None and o is not None]
    shares = resize_in_place([(m.view, o.size) for m, o in running], room)
    for menu, option in running:
        own = shares[menu.view.job_id]
        size = option.size
        if menu.view.spec.unit is SizeUnit.CORES:
            size = len(own[0].cpus)
        assignments.append(_assignment(menu, option, size, own, room))
        room.power_uw -= room.power_of(own, option.cap_uw)
    starts, waiting = _place_new(chosen, room)
    return assignments + starts, waiting


def keep_all(snapshot: Snapshot, solution: Solution, solver: str) -> Plan:
    """Nothing starts, running jobs keep their cores; the core scales their caps to the budget."""
    kept = tuple(view.current for view in snapshot.jobs if view.current is not None)
    detail = solution.detail or solution.outcome.value
    waiting = tuple(
        Waiting(job_id=view.job_id, reason=f"the running jobs alone fill the budget ({detail})")
        for view in snapshot.jobs
        if view.current is None
    )
    return Plan(
        assignments=kept,
        waiting=waiting,
        solver=solver,
        outcome=solution.outcome.value,
    )


def _assignment(
    menu: Menu,
    option: Option,
    size: int,
    shares: tuple[Share, ...],
    room: Room,
) -> Assignment:
    cap_uw, total_s = option.cap_uw, option.total_s
    chosen = menu.places[option.place].kinds
    kinds = room.kinds_under(shares) or chosen
    if size != option.size or set(kinds) != set(chosen):
        cap_uw = room.held_uw(shares, cap_uw)
        total_s = run_time_s(menu.view, kinds, size, cap_uw)
    return Assignment(
        job_id=menu.view.job_id,
        size=size,
        cap_uw=cap_uw,
        shares=shares,
        expected_total_s=total_s,
    )


def _place_new(chosen: Chosen, room: Room) -> tuple[list[Assignment], list[Waiting]]:
    """Places new jobs, whole nodes and large ones first, and says why the others wait."""
    new = [(menu, option) for menu, option in chosen if menu.view.current is None]
    ordered = sorted(
        ((menu, option) for menu, option in new if option is not None),
        key=lambda pair: (not takes_whole_nodes(pair[0].view.spec), -pair[1].size),
    )
    starts: list[Assignment] = []
    homeless = ordered
    # Those without room on nodes of the kind chosen get what the others have left.
    for finds in (_of_its_place, _anywhere):
        left, homeless = homeless, []
        for menu, option in left:
            started = _place_one(menu, option, room, finds)
            if started is None:
                homeless.append((menu, option))
            else:
                starts.append(started)
        if room.alike:
            break
    free = sum(len(cpus) for cpus in room.free.values())
    waiting = [_why_waiting(menu, free, room.power_uw) for menu, option in new if option is None]
    waiting += [
        Waiting(
            job_id=menu.view.job_id,
            reason=f"chosen, but no node has {menu.view.spec.size_min} cores free in one piece",
        )
        for menu, _ in homeless
    ]
    return starts, waiting


def _place_one(menu: Menu, option: Option, room: Room, finds: Finds) -> Assignment | None:
    sizes = menu.table.sizes
    for size in sizes[: np.searchsorted(sizes, option.size, side="right")][::-1].tolist():
        shares = finds(menu, option, size, room)
        if shares is None:
            continue
        power_uw = room.power_of(shares, option.cap_uw)
        if power_uw <= room.power_uw:
            room.take(shares, power_uw, takes_whole_nodes(menu.view.spec))
            return _assignment(menu, option, size, shares, room)
    return None


def _of_its_place(menu: Menu, option: Option, size: int, room: Room) -> tuple[Share, ...] | None:
    """Nodes of the alternative that was chosen."""
    spec, place = menu.view.spec, menu.places[option.place]
    takes_ns = room.takes_ns_at_most(menu.view)
    if not place.nodes:
        return room.find(spec, size, room.of_kind(place.kinds[0]), takes_ns)
    if size != option.size:
        return None
    parts = [
        room.find(spec, count, room.of_kind(kind), takes_ns)
        for kind, count in zip(place.kinds, place.nodes, strict=True)
    ]
    found = [part for part in parts if part is not None]
    return tuple(share for part in found for share in part) if len(found) == len(parts) else None


def _anywhere(menu: Menu, option: Option, size: int, room: Room) -> tuple[Share, ...] | None:
    """Any nodes that can be fed at the level."""
    takes_ns = room.takes_ns_at_most(menu.view)
    return room.find_fed(menu.view.spec, size, option.cap_uw, takes_ns)


def _why_waiting(menu: Menu, free: int, left_uw: int) -> Waiting:
    job_id, spec = menu.view.job_id, menu.view.spec
    if not len(menu.table):
        return Waiting(
            job_id=job_id,
            reason=f"asks for {spec.size_min} {spec.unit.value}, more than there are in reach",
            never=True,
        )
    units = int(menu.table.units.min())
    power_w = int(menu.table.power_uw.min()) / 1e6
    left_w = max(left_uw, 0) / 1e6
    if free < units:
        reason = f"needs {units} cores, {free} are free; the running jobs gain more from them"
    elif left_w < power_w:
        reason = f"needs {power_w:.1f} W above idle, {left_w:.1f} W of the budget are left"
    else:
        reason = f"room for {units} cores and {power_w:.1f} W is kept for jobs that gain more"
    return Waiting(job_id=job_id, reason=reason)
