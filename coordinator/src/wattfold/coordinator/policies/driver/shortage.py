"""Missing resources of a waiting job, the running jobs that hold them, and when they become free.

Computed from a snapshot for users who ask about a job, under any policy. The policy states why it
lets a job wait; this module states which changes would let it start. Running jobs count with their
expected ends. Nothing here changes a decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import JobView, Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.job_size import size_of
from wattfold.coordinator.policies.driver.site_view import site_of
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes

NAMED_MAX = 3
"""Maximum number of jobs named in a sentence."""
_SPREADS = {Spread.ANY: "", Spread.TOGETHER: " on one node", Spread.APART: " on separate nodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a job has no place now. ``holders`` use the needed resources, in order of their ends.

    ``until_ns`` is the expected end of these jobs; 0 = unknown, because a holder exceeds its
    estimate or because no end of a running job suffices. ``budget_uw`` is an announced budget that
    ends the shortage at this time; 0 = none.
    """

    lacks: str
    holders: tuple[JobId, ...] = ()
    until_ns: int = 0
    budget_uw: int = 0

    @property
    def held_by(self) -> str:
        """The holders, for users; empty if there are none."""
        if not self.holders:
            return ""
        named, more = self.holders[:NAMED_MAX], len(self.holders) - NAMED_MAX
        ids = [*named, f"{more} more"] if more > 0 else list(named)
        listed = f"{', '.join(ids[:-1])} and {ids[-1]}" if len(ids) > 1 else ids[0]
        return f"job{'s' * (len(self.holders) > 1)} {listed}"


def free_room(snapshot: Snapshot) -> Room:
    """Return the resources that running jobs leave free."""
    room = Room.of(snapshot, snapshot.now_ns)
    for view in snapshot.jobs:
        if view.current is not None:
            power_uw = room.given_uw(view.current)
            room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
    return room


def level_uw(snapshot: Snapshot, view: JobView, policy: Policy) -> int:
    """Return the lowest level at which a policy starts a job."""
    kinds = [node.spec.kind for node in snapshot.nodes]
    if view.spec.cap_uw:
        return view.spec.cap_uw
    if policy.chooses_caps:
        return min(kind.lowest_uw for kind in kinds)
    return max(kind.most_uw for kind in kinds)


def shortage(
    snapshot: Snapshot, view: JobView, policy: Policy, room: Room | None = None
) -> Shortage | None:
    """Return what a waiting job lacks at the size at which it may start; None if it has a place.

    ``room`` is the result of `free_room`; it is not changed.
    """
    room = room or free_room(snapshot)
    cap_uw, spec = level_uw(snapshot, view, policy), view.spec
    size = size_of(view, site_of(snapshot), policy.size, cap_uw) or spec.min_size
    takes_ns = room.takes_ns(view, size, cap_uw)

    def placed(there: Room) -> tuple[Share, ...] | None:
        return there.find_fed(spec, size, cap_uw, takes_ns)

    if placed(room) is not None:
        return None
    if kept := room.kept(spec, size, cap_uw, takes_ns):
        return Shortage(lacks=kept)
    lacks, watts_alone = _lacks(view, size, room, cap_uw)
    running = sorted(
        (view for view in snapshot.jobs if view.current is not None),
        key=lambda view: _ends_ns(view, snapshot.now_ns),
    )

    def free_after(count: int) -> Room:
        later = room.copy()
        for one in running[:count]:
            assert one.current is not None
            power_uw = room.given_uw(one.current)
            later.give_back(one.current.shares, power_uw, takes_whole_nodes(one.spec))
        return later

    # Free resources only grow with the number of ended jobs.
    ended = bisect_left(range(len(running) + 1), True, key=lambda n: bool(placed(free_after(n))))
    until_ns = _ends_ns(running[ended - 1], snapshot.now_ns) if 0 < ended <= len(running) else 0
    if watts_alone and (raised := _raised(snapshot, placed, room, until_ns)):
        return Shortage(lacks=lacks, until_ns=raised[0], budget_uw=raised[1])
    if ended > len(running):
        return Shortage(lacks=lacks)
    shares = placed(free_after(ended)) or ()
    own = running[:ended]
    there = [one for one in own if watts_alone or _meets(one, shares)] or own
    over = any(one.over_ns for one in there)
    return Shortage(
        lacks=lacks,
        # Many jobs hold the watts; the last jobs to end decide.
        holders=tuple(one.job_id for one in (there[-NAMED_MAX:] if watts_alone else there)),
        until_ns=0 if over else until_ns,
    )


def _lacks(view: JobView, size: int, room: Room, cap_uw: int) -> tuple[str, bool]:
    """Return what a job lacks, for users, and whether it lacks only power."""
    spec = view.spec
    shares = room.find(spec, size, None, room.takes_ns(view, size, cap_uw))
    if shares is not None:
        return f"needs {_watts(room.power_of(shares, cap_uw, spec.levels), room)}", True
    if missing := room.stock.missing(spec):
        return missing, False
    asked = size_text(spec, size)
    if spec.unit is SizeUnit.NODES:
        free = sum(cpus == room.specs[n].cpus for n, cpus in room.free.items())
        text = f"needs {asked}, {free or 'none'} free"
    elif spec.unit is SizeUnit.UNITS:
        fit = room.units_free(spec, room.specs)
        text = f"needs {asked}{_SPREADS[spec.spread]}, room for {fit or 'none'}"
    else:
        most = max(len(cpus) for cpus in room.free.values())
        there = f" on one node, at most {most} free" if len(room.free) > 1 else f", {most} free"
        text = f"needs {asked}{there if most else ', none free'}"
        if spec.exclusive:
            text = f"needs {asked} of an idle node, no node is idle"
    cores = size * spec.unit_cores if spec.unit is SizeUnit.UNITS else size
    whole = spec.unit is SizeUnit.NODES
    parts = [
        room.part_uw(n, spec, len(one.cpus) if whole else min(cores, len(one.cpus)), cap_uw)
        for n, one in room.specs.items()
    ]
    needed_uw = min(parts) * (size if whole else 1)
    short = needed_uw > max(room.power_uw, 0)
    return (f"{text}, and {_watts(needed_uw, room)}" if short else text), False


def _watts(needed_uw: int, room: Room) -> str:
    return f"{needed_uw / 1e6:.1f} W above idle, {max(room.power_uw, 0) / 1e6:.1f} W free"


def _ends_ns(view: JobView, now_ns: int) -> int:
    """Return the expected end of a running job; now if it exceeds its estimate."""
    assert view.current is not None
    left_s = view.current.expected_total_s * (1 - view.done)
    return now_ns + max(round(left_s * NS_PER_S), 0)


def _meets(view: JobView, shares: Sequence[Share]) -> bool:
    """Return whether a running job uses the resources of these shares."""
    assert view.current is not None
    alone = takes_whole_nodes(view.spec)
    cpus = {share.node_id: share.cpus for share in shares}
    gpus = {share.node_id: {*share.gpus} for share in shares}
    return any(
        alone or not cpus[own.node_id].isdisjoint(own.cpus) or gpus[own.node_id] & {*own.gpus}
        for own in view.current.shares
        if own.node_id in cpus
    )


def _raised(
    snapshot: Snapshot, placed: Callable[[Room], object], room: Room, until_ns: int
) -> tuple[int, int] | None:
    """Return when an announced budget suffices before running jobs end, and the budget."""
    for ahead in snapshot.ahead:
        if until_ns and ahead.from_ns >= until_ns:
            return None
        later = room.copy()
        later.power_uw += ahead.budget_uw - snapshot.budget_uw
        if placed(later) is not None:
            return ahead.from_ns, ahead.budget_uw
    return None
