"""From sizes and caps to nodes and cores: how decisions of schedulers become assignments.

Running jobs stay where they are and are resized first. New jobs are placed one after the other; one
that finds no place at its size takes the greatest smaller one that does, if it may. Where nodes are
unlike it looks among those of the kind that was decided, then, after all others, anywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Assignment, Share, SizeUnit
from wattfold.coordinator.core.job_units import counted
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.estimates import duration_ns, run_time_s
from wattfold.coordinator.policies.moving import places
from wattfold.coordinator.policies.placement import Room, resize_in_place, takes_whole_nodes
from wattfold.coordinator.policies.scheduler import Placing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A decision on a job. ``placing`` None: the size fits as said, ``among`` these nodes."""

    view: JobView
    size: int
    cap_uw: int
    placing: Placing | None = None
    among: Sequence[NodeId] = ()
    """Empty: any."""

    @property
    def levels(self) -> Levels:
        """What it has beside its cap: what was decided, but for what it asks for."""
        if self.placing is None:
            return PLAIN.under(self.view.spec.levels)
        decided = Levels(dram_uw=self.placing.dram_uw, gpu_uw=self.placing.gpu_uw)
        return decided.under(self.view.spec.levels)


Finds = Callable[[Wanted, int, Room], tuple[Share, ...] | None]


def resized(running: Sequence[Wanted], room: Room) -> list[Assignment]:
    """What running jobs have after a decision. ``room`` is free beside them, and is taken from."""
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


def _moves(one: Wanted) -> bool:
    """Whether a job gets another number of nodes, by a restart."""
    current = one.view.current
    whole = one.view.spec.unit is SizeUnit.NODES
    return current is not None and whole and one.size != current.size


def _on_other_nodes(moving: Sequence[Wanted], room: Room) -> dict[str, tuple[Share, ...]]:
    """The nodes of these jobs: first of those that give some up, then of the others.

    One that cannot grow as far as decided gets what there is.
    """
    for one in moving:
        room.take(_held(one.view), 0, alone=True)
    found: dict[str, tuple[Share, ...]] = {}
    for one in sorted(moving, key=lambda one: one.size > len(_held(one.view))):
        held = _held(one.view)
        room.give_back(held, 0, alone=True)
        least = min(one.size, len(held))
        sizes = range(one.size, least - 1, -1)
        kinds = one.placing.kinds if one.placing else ()
        like = room.of_kind(kinds[0]) if kinds else None
        tries = (places(one.view, size, one.cap_uw, room, like) for size in sizes)
        own = found[one.view.job_id] = next((shares for shares in tries if shares), held)
        room.take(own, 0, alone=True)
    return found


def _held(view: JobView) -> tuple[Share, ...]:
    return view.current.shares if view.current else ()


def placed(starts: Iterable[Wanted], room: Room) -> tuple[list[Assignment], list[Wanted]]:
    """New jobs on nodes, and those for which there are none. ``room`` is taken from.

    Jobs that fit as decided are placed in their order; of others those on whole nodes and the large
    ones come first.
    """
    homeless = sorted(starts, key=_turn)
    assignments: list[Assignment] = []
    # Those without room on nodes of the kind decided get what the others have left.
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


def _turn(one: Wanted) -> tuple[bool, int]:
    if one.placing is None:
        return False, 0
    return not takes_whole_nodes(one.view.spec), -one.size


def _placed(one: Wanted, room: Room, finds: Finds) -> Assignment | None:
    sizes = one.placing.sizes if one.placing else (one.size,)
    for size in reversed(sizes[: bisect_right(sizes, one.size)]):
        shares = finds(one, size, room)
        if shares is None:
            continue
        power_uw = room.power_of(shares, one.cap_uw, one.levels)
        if power_uw <= room.power_uw:
            room.take(shares, power_uw, takes_whole_nodes(one.view.spec))
            return _assigned(one, size, shares, room)
    return None


def _of_its_kind(one: Wanted, size: int, room: Room) -> tuple[Share, ...] | None:
    """Nodes of the kind, or as many of each kind, as decided."""
    spec, placing = one.view.spec, one.placing
    if placing is None or not placing.kinds:
        return _anywhere(one, size, room)
    takes_ns = room.takes_ns_at_most(one.view)
    if not placing.nodes:
        return room.find(spec, size, room.of_kind(placing.kinds[0]), takes_ns)
    if size != one.size:
        return None
    parts = [
        room.find(spec, count, room.of_kind(kind), takes_ns)
        for kind, count in zip(placing.kinds, placing.nodes, strict=True)
    ]
    found = [part for part in parts if part is not None]
    return tuple(share for part in found for share in part) if len(found) == len(parts) else None


def _anywhere(one: Wanted, size: int, room: Room) -> tuple[Share, ...] | None:
    """Any nodes that can be fed at the level."""
    view, cap_uw = one.view, one.cap_uw
    exactly = one.placing is None
    takes_ns = room.takes_ns(view, size, cap_uw) if exactly else room.takes_ns_at_most(view)
    return room.find_fed(view.spec, size, cap_uw, takes_ns, one.among)


def _assigned(one: Wanted, size: int, shares: tuple[Share, ...], room: Room) -> Assignment:
    cap_uw, placing = one.cap_uw, one.placing
    kinds = room.kinds_under(shares)
    if placing is None:
        cap_uw = room.held_uw(shares, cap_uw)
        total_s = duration_ns(one.view, kinds, size, one.cap_uw) / 1e9
    elif size == one.size and set(kinds or placing.kinds) == set(placing.kinds):
        total_s = placing.expected_s
    else:
        cap_uw = room.held_uw(shares, cap_uw)
        total_s = run_time_s(one.view, kinds or placing.kinds, size, cap_uw)
    return Assignment(
        job_id=one.view.job_id,
        size=size,
        cap_uw=cap_uw,
        shares=shares,
        expected_total_s=total_s,
        levels=one.levels,
    )
