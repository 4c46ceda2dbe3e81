"""Placement: conversion of decisions (sizes and caps) into assignments (nodes and cores).

Running jobs stay where they are and are resized first. New jobs are placed one after another. A job
that does not fit at its size gets the largest permitted smaller size that fits. If nodes are
heterogeneous, the job is placed on nodes of the selected kind, or after all other jobs on any node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.job_units import counted
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.relocation import places
from wattfold.coordinator.policies.port import NodeRequirements
from wattfold.coordinator.policies.resources.estimates import duration_ns, run_time_s
from wattfold.coordinator.policies.resources.resizing import resize_in_place
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A decision about a job, on nodes of ``among``.

    ``requirements`` None: the size fits as decided.
    """

    view: JobView
    size: int
    cap_uw: int
    requirements: NodeRequirements | None = None
    among: Sequence[NodeId] = ()
    """Permitted nodes; empty = any."""

    @property
    def levels(self) -> Levels:
        """DRAM and GPU levels: as requested by the job, or else as decided."""
        if self.requirements is None:
            return PLAIN.under(self.view.spec.levels)
        decided = Levels(dram_uw=self.requirements.dram_uw, gpu_uw=self.requirements.gpu_uw)
        return decided.under(self.view.spec.levels)


Finds = Callable[[Wanted, int, Room], tuple[Share, ...] | None]


def resized(running: Sequence[Wanted], room: Room) -> list[Assignment]:
    """Return the assignments of running jobs after a decision.

    ``room`` holds the resources without these jobs; the assignments are taken from it.
    """
    moving = [one for one in running if _moves(one)]
    stay = [one for one in running if not _moves(one)]
    shares = resize_in_place([(one.view, one.size) for one in stay], room)
    shares |= _on_other_nodes(moving, room)
    assignments = []
    for one in running:
        own = shares[one.view.job_id]
        if _moves(one) and len(own) != one.size:
            one = replace(one, size=len(own))
        assignments.append(_assigned(one, counted(one.view.spec, own), own, room))
        room.power_uw -= room.power_of(own, one.cap_uw, one.levels)
    return assignments


def _moves(wanted: Wanted) -> bool:
    """Return whether a job gets a different number of nodes, by a restart."""
    current = wanted.view.current
    whole = wanted.view.spec.unit is SizeUnit.NODES
    return current is not None and whole and wanted.size != current.size


def _on_other_nodes(relocated: Sequence[Wanted], room: Room) -> dict[str, tuple[Share, ...]]:
    """Return the nodes of these jobs: first for shrinking jobs, then for the others.

    A job that cannot grow to the decided size gets as much as possible.
    """
    for one in relocated:
        room.take(_held(one.view), 0, alone=True)
    found: dict[str, tuple[Share, ...]] = {}
    for one in sorted(relocated, key=lambda wanted: wanted.size > len(_held(wanted.view))):
        held = _held(one.view)
        room.give_back(held, 0, alone=True)
        least = min(one.size, len(held))
        sizes = range(one.size, least - 1, -1)
        kinds = one.requirements.kinds if one.requirements else ()
        like = room.of_kind(kinds[0]) if kinds else None
        tries = (places(one.view, size, one.cap_uw, room, like) for size in sizes)
        own = found[one.view.job_id] = next((shares for shares in tries if shares), held)
        room.take(own, 0, alone=True)
    return found


def _held(view: JobView) -> tuple[Share, ...]:
    return view.current.shares if view.current else ()


def placed(starts: Iterable[Wanted], room: Room) -> tuple[list[Assignment], list[Wanted]]:
    """Return assignments of new jobs, and the jobs without a place. They are taken from ``room``.

    Jobs that fit as decided are placed in order. Among the others, jobs on whole nodes and large
    jobs go first.
    """
    homeless = sorted(starts, key=_turn)
    assignments: list[Assignment] = []
    # Jobs that do not fit on nodes of the selected kind get resources that the others leave.
    for finds in (_of_its_kind, _anywhere):
        left, homeless = homeless, []
        for one in left:
            found = _placed(one, room, finds)
            if found is None:
                homeless.append(one)
            else:
                assignments.append(found)
        if not homeless or room.alike:
            break
    return assignments, homeless


def _turn(wanted: Wanted) -> tuple[bool, int]:
    if wanted.requirements is None:
        return False, 0
    return not takes_whole_nodes(wanted.view.spec), -wanted.size


def _placed(wanted: Wanted, room: Room, finds: Finds) -> Assignment | None:
    sizes = wanted.requirements.sizes if wanted.requirements else (wanted.size,)
    for size in reversed(sizes[: bisect_right(sizes, wanted.size)]):
        shares = finds(wanted, size, room)
        if shares is None:
            continue
        power_uw = room.power_of(shares, wanted.cap_uw, wanted.levels)
        if power_uw <= room.power_uw:
            room.take(shares, power_uw, takes_whole_nodes(wanted.view.spec))
            return _assigned(wanted, size, shares, room)
    return None


def _of_its_kind(wanted: Wanted, size: int, room: Room) -> tuple[Share, ...] | None:
    """Return nodes of the selected kind, or the selected number of nodes of each kind."""
    spec, requirements = wanted.view.spec, wanted.requirements
    if requirements is None or not requirements.kinds:
        return _anywhere(wanted, size, room)
    takes_ns = room.takes_ns_at_most(wanted.view)
    if not requirements.nodes:
        return room.find(spec, size, room.of_kind(requirements.kinds[0]), takes_ns)
    if size != wanted.size:
        return None
    parts = [
        room.find(spec, count, room.of_kind(kind), takes_ns)
        for kind, count in zip(requirements.kinds, requirements.nodes, strict=True)
    ]
    found = [part for part in parts if part is not None]
    return tuple(share for part in found for share in part) if len(found) == len(parts) else None


def _anywhere(wanted: Wanted, size: int, room: Room) -> tuple[Share, ...] | None:
    """Return any nodes within the power at the level."""
    view, cap_uw = wanted.view, wanted.cap_uw
    exactly = wanted.requirements is None
    takes_ns = room.takes_ns(view, size, cap_uw) if exactly else room.takes_ns_at_most(view)
    return room.find_fed(view.spec, size, cap_uw, takes_ns, wanted.among)


def _assigned(wanted: Wanted, size: int, shares: tuple[Share, ...], room: Room) -> Assignment:
    cap_uw, requirements = wanted.cap_uw, wanted.requirements
    kinds = room.kinds_under(shares)
    if requirements is None:
        cap_uw = room.held_uw(shares, cap_uw)
        total_s = duration_ns(wanted.view, kinds, size, wanted.cap_uw) / 1e9
    elif size == wanted.size and set(kinds or requirements.kinds) == set(requirements.kinds):
        total_s = requirements.expected_s
    else:
        cap_uw = room.held_uw(shares, cap_uw)
        total_s = run_time_s(wanted.view, kinds or requirements.kinds, size, cap_uw)
    return Assignment(
        job_id=wanted.view.job_id,
        size=size,
        cap_uw=cap_uw,
        shares=shares,
        expected_total_s=total_s,
        levels=wanted.levels,
    )
