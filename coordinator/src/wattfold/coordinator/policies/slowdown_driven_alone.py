"""When a job would start without mates, and on which free nodes, where nodes have names.

Where all jobs take whole like nodes, by a map of reservations of those that wait before it; else by
what runs alone, as if no other waited, once for all of a shape in a round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import SizeUnit
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room
from wattfold.coordinator.policies.reservations import Profile
from wattfold.coordinator.policies.slowdown_driven_head import Head, Shape, Waiter
from wattfold.coordinator.policies.slowdown_driven_rules import Power, SharingRules
from wattfold.coordinator.policies.slowdown_driven_runs import Ground


@dataclass(slots=True, kw_only=True)
class Alone:
    """One round's answers. ``waiting`` are those that wait so far, in order, and grows.

    ``counted``: all jobs take whole nodes and ask for nothing else.
    """

    rules: SharingRules
    ground: Ground
    now_ns: int
    kinds: Sequence[NodeKind]
    counted: bool
    waiting: Sequence[Waiter]
    nowhere: Set[Shape]
    """Shapes that have no place in this round."""
    _starts_ns: dict[Shape, int] = field(default_factory=dict)
    _map: Profile | None = None
    _mapped: int = 0

    def started(self) -> None:
        """Something has started: reservations are others."""
        self._map = None

    def ends_ns(self, one: Waiter, asked_ns: int) -> int | None:
        """When a job would end if it waited; None: that is no matter, or it never starts."""
        if not self.rules.benefit and self.rules.power is not Power.WEIGH:
            return None
        start_ns = self._mapped_start(one, asked_ns) if self.counted else self._free_start(one)
        return None if start_ns is None else start_ns + asked_ns

    def by_turn(self, one: Waiter) -> tuple[int, Room]:
        """When a job will fit by what runs, and what is free then; else when all has ended."""
        runs = sorted(self.ground.runs.values(), key=lambda run: run.ends_ns)
        times = sorted({max(run.ends_ns, self.now_ns) for run in runs}) or [self.now_ns]

        def future(time_ns: int) -> Room:
            room = self.ground.room.copy()
            room.at_ns = time_ns
            for run in runs:
                if run.ends_ns > time_ns:
                    break
                room.give_back(run.given.shares, run.power_uw, run.view.spec.alone)
            return room

        def fits(time_ns: int) -> bool:
            return one.place(future(time_ns)) is not None

        if self.ground.room.windows.concern(one.view.spec):
            found = next((time_ns for time_ns in times if fits(time_ns)), times[-1])
        else:
            # What has ended stays so: from some time on it fits.
            at = bisect_left(times, True, hi=len(times) - 1, key=fits)
            found = times[at]
        return found, future(found)

    def spare(self, one: Waiter, head: Head | None) -> Callable[[int], int]:
        """Free nodes for a job that takes so long, none that the first that waits will need."""
        any_power = self.rules.power is Power.ANY
        free = self.ground.room.empty_count(one.view.spec) if any_power else self._fed_count(one)
        if head is None:
            return lambda _: free
        extra = 0
        if head.waiter.view.spec.unit is SizeUnit.NODES:
            extra = max(head.future.empty_count(head.waiter.view.spec) - head.waiter.size, 0)
        shadow_ns, now_ns = head.shadow_ns, self.now_ns
        return lambda takes_ns: free if now_ns + takes_ns <= shadow_ns else min(free, extra)

    def _fed_count(self, one: Waiter) -> int:
        """Free nodes for which there is power."""
        room, spec = self.ground.room, one.view.spec
        each_uw = max(
            room.part_uw(name, spec, node.kind.cores, one.cap_uw)
            for name, node in room.specs.items()
        )
        free = room.empty_count(spec)
        return min(free, max(room.power_uw, 0) // each_uw) if each_uw else free

    def _free_start(self, one: Waiter) -> int:
        """By what runs alone, as if no other waited; the same for all of a shape in this round."""
        if one.shape not in self._starts_ns:
            spec, room = one.view.spec, self.ground.room
            if one.shape not in self.nowhere and one.place(room) is not None:
                start_ns = self.now_ns
            elif spec.unit is SizeUnit.CORES and not self._restricted(one):
                start_ns = self._free_on_a_node(one.size)
            else:
                start_ns = self.by_turn(one)[0]
            self._starts_ns[one.shape] = start_ns
        return self._starts_ns[one.shape]

    def _restricted(self, one: Waiter) -> bool:
        """Whether more than cores may keep a job from a node."""
        spec, room = one.view.spec, self.ground.room
        needed_uw = max(room.part_uw(node_id, spec, one.size, one.cap_uw) for node_id in room.specs)
        asks = spec.requests or spec.exclusive or room.windows.concern(spec)
        return bool(asks) or needed_uw > room.power_uw

    def _free_on_a_node(self, size: int) -> int:
        """When a node has so many cores free, by what runs there; else when all has ended."""
        found: list[int] = []
        for node_id, cpus in self.ground.room.free.items():
            free = len(cpus)
            for run in sorted(self.ground.on(node_id), key=lambda run: run.ends_ns):
                free += len(run.given.on(node_id))
                if free >= size:
                    found.append(max(run.ends_ns, self.now_ns))
                    break
        last_ns = max((run.ends_ns for run in self.ground.runs.values()), default=self.now_ns)
        return min(found, default=last_ns)

    def _mapped_start(self, one: Waiter, asked_ns: int) -> int | None:
        """By the reservations of those that wait before it as well; None = never."""
        if self._map is None:
            self._map, self._mapped = self._profile(one), 0
        profile, now_ns = self._map, self.now_ns
        for other in self.waiting[self._mapped : self.rules.mapped]:
            takes_ns = duration_ns(other.view, self.kinds[:1], other.size, other.cap_uw)
            start_ns = profile.earliest(other.size, takes_ns, now_ns)
            if start_ns is not None:
                profile.add(start_ns, start_ns + takes_ns, -other.size)
            self._mapped += 1
        return profile.earliest(one.size, asked_ns, now_ns)

    def _profile(self, one: Waiter) -> Profile:
        """How many nodes will be free when, by the running jobs alone."""
        ends: dict[NodeId, int] = {}
        for run in self.ground.runs.values():
            for share in run.given.shares:
                ends[share.node_id] = max(ends.get(share.node_id, self.now_ns), run.ends_ns)
        profile = Profile(self._fed_count(one), self.now_ns)
        times, free = profile.times, profile.free
        for end_ns in sorted(ends.values()):
            if end_ns == times[-1]:
                free[-1] += 1
            else:
                times.append(end_ns)
                free.append(free[-1] + 1)
        return profile
