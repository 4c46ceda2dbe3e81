"""What equipartition shares: whole nodes among some jobs, and the cores of a node among others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.charge import node_uw, share_uw
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.easy_uniform import greatest_level_uw
from wattfold.coordinator.policies.equal_shares import equal_shares
from wattfold.coordinator.policies.scheduler import Ask, Jobs, NamedJobs, Reason, Site

WHOLE = NodeId("")
"""The part of the site that is shared by whole nodes."""


@dataclass(slots=True, kw_only=True)
class Sharer:
    """A job among those that share: nodes, or cores of the node ``on``."""

    job: int
    ask: Ask
    least: int
    greatest: int
    size: int
    """What it has; 0 = it is about to start."""
    on: NodeId = WHOLE


class Ground:
    """The site at one decision, and who shares it. Jobs of which nothing may change are not asked.

    ``fewer``: only so many nodes count as the budget feeds at the greatest level; else as many as
    it feeds at the least.
    """

    def __init__(self, site: Site, jobs: Jobs, *, fewer: bool) -> None:
        self._site, self._jobs, self._fewer = site, jobs, fewer
        self.sharers: list[Sharer] = []
        self._by_part: dict[NodeId, list[Sharer]] = {WHOLE: []}
        self._closed: set[NodeId] = set()
        """Nodes that a job on cores has to itself."""
        self._held: set[NodeId] = set()
        """Nodes of running jobs on whole nodes."""
        self._vacated = 0
        """Nodes that jobs on whole nodes are to leave to others."""
        self._room = None
        self._power_uw = site.spendable_uw
        self._kinds: tuple[NodeKind, ...] = (site.kind,) if site.kind is not None else ()
        self._nodes = site.count
        if self.named:
            self._room = self._known.room()
            self._power_uw = self._room.power_uw
            specs = self._room.specs
            self._kinds = tuple({id(spec.kind): spec.kind for spec in specs.values()}.values())
            self._empty = {n: None for n, free in self._room.free.items() if free == specs[n].cpus}

    @property
    def named(self) -> bool:
        """Whether nodes have names."""
        return bool(self._site.nodes)

    @property
    def _known(self) -> NamedJobs:
        return cast("NamedJobs", self._jobs)

    def add(self, one: Sharer) -> None:
        """A job that runs."""
        if self.named:
            view = self._known.view(one.job)
            assert view.current is not None
            nodes = [share.node_id for share in view.current.shares]
            if one.ask.unit is SizeUnit.CORES:
                one.on = nodes[0]
            else:
                self._held.update(nodes)
        if one.ask.cap_uw:
            # The level of all others is made of what is left: none of it is for its growth.
            one.greatest = max(one.least, min(one.greatest, one.size))
        self._join(one)

    def _join(self, one: Sharer) -> None:
        self.sharers.append(one)
        self._by_part.setdefault(one.on, []).append(one)
        if one.on and one.ask.exclusive:
            self._closed.add(one.on)

    def admit(self, one: Sharer) -> bool:
        """Takes in a job that waits, if its least size fits beside those of all others."""
        cores = one.ask.unit is SizeUnit.CORES
        if not self._feeds_own(one):
            return False
        if not cores:
            if one.least > self._left(WHOLE) or not self._suits(one, None):
                return False
        else:
            on = self._best(one)
            if on is None:
                return False
            one.on = on
        one.greatest = max(one.least, min(one.greatest, self._units(one.on)))
        self._join(one)
        return True

    def _best(self, one: Sharer) -> NodeId | None:
        """The node on which a job gets most cores; of equal ones that with the least left over."""
        room = self._room
        assert room is not None, "cores are of nodes with names"
        best: tuple[int, int] | None = None
        found: NodeId | None = None
        others = self._left(WHOLE) >= 1
        wanted = False
        for node_id in room.specs:
            residents = self._by_part.get(node_id, ())
            if residents and (one.ask.exclusive or node_id in self._closed):
                continue
            left = self._left(node_id) - one.least
            if left < 0 or not (residents or (others and node_id in self._empty)):
                continue
            if not self._suits(one, node_id):
                continue
            if node_id in self._held:
                wanted = True  # Its job may have to leave it first.
                continue
            gets = min(one.greatest, one.least + left // (len(residents) + 1))
            if best is None or (gets, -left) > best:
                best, found = (gets, -left), node_id
        if found is None and wanted:
            self._vacated += 1
        return found

    def _suits(self, one: Sharer, node_id: NodeId | None) -> bool:
        """Whether there is a place for its least size if nobody else had any."""
        room = self._room
        if room is None:
            return True
        view = self._known.view(one.job)
        takes_ns = room.takes_ns_at_most(view)
        among = self._empty if node_id is None else (node_id,)
        return room.find(view.spec, one.least, among, takes_ns) is not None

    def _units(self, part: NodeId) -> int:
        """Nodes or cores that a part has to share."""
        if part:
            assert self._room is not None
            return len(self._room.free[part])
        shared = len(self._by_part) - 1 + self._vacated
        nodes = self._site.count
        if self._room is not None:
            nodes = sum(node_id not in self._by_part for node_id in self._empty) - self._vacated
        each_uw = max((node_uw(kind, self._counted_uw(kind)) for kind in self._kinds), default=0)
        fed = max(self._power_uw - self._own_uw(), 0) // each_uw if each_uw > 0 else nodes
        return max(min(nodes, fed - shared if each_uw > 0 else nodes), 0)

    def _counted_uw(self, kind: NodeKind) -> int:
        return kind.most_uw if self._fewer else max(kind.floor_uw, kind.least_uw)

    @property
    def left_whole(self) -> int:
        """Nodes beside the least sizes of all that share whole ones."""
        return self._left(WHOLE)

    def _left(self, part: NodeId) -> int:
        return self._units(part) - sum(one.least for one in self._by_part.get(part, ()))

    # Power.

    def _own_uw(self) -> int:
        """What jobs with levels of their own take at most."""
        return sum(self._cost_uw(one, one.greatest) for one in self.sharers if one.ask.cap_uw)

    def _cost_uw(self, one: Sharer, size: int) -> int:
        level_uw, whole = one.ask.cap_uw, one.ask.unit is SizeUnit.NODES
        return max(
            node_uw(kind, level_uw) * size if whole else share_uw(kind, size, level_uw)
            for kind in self._kinds
        )

    def _feeds_own(self, one: Sharer) -> bool:
        if not one.ask.cap_uw:
            return True
        one.greatest = one.least
        return self._cost_uw(one, one.least) <= self._power_uw - self._own_uw()

    def level_uw(self, sizes: Sequence[int]) -> int:
        """The one level, microwatts, of all jobs that have none of their own."""
        parts: list[tuple[NodeKind, int, int]] = []
        power_uw = self._power_uw
        for one, size in zip(self.sharers, sizes, strict=True):
            if one.ask.cap_uw:
                power_uw -= self._cost_uw(one, size)
            else:
                parts += self._parts(one, size)
        most_uw, least_uw = (
            max(kind.most_uw for kind in self._kinds),
            max(kind.least_uw for kind in self._kinds),
        )
        return max(greatest_level_uw(parts, power_uw), least_uw) if parts else most_uw

    def _parts(self, one: Sharer, size: int) -> Iterable[tuple[NodeKind, int, int]]:
        """Kind, cores of a node and number of nodes that a job has at a size.

        Nodes that are not known yet count as those that take most.
        """
        if one.on:
            assert self._room is not None
            return ((self._room.specs[one.on].kind, size, 1),)
        kinds: list[NodeKind] = []
        if self._room is not None and one.size:
            current = self._known.view(one.job).current
            assert current is not None
            kinds = [self._room.specs[share.node_id].kind for share in current.shares][:size]
        hungry = max(self._kinds, key=lambda kind: node_uw(kind, kind.most_uw))
        new = ((hungry, hungry.cores, size - len(kinds)),) if size > len(kinds) else ()
        return (*((kind, kind.cores, 1) for kind in kinds), *new)

    # Sizes.

    def meet(self, needed: Iterable[tuple[Sharer, int]]) -> None:
        """Raises the least sizes of these jobs, in order, as far as others leave it."""
        for one, size in needed:
            one.least += max(min(size - one.least, self._left(one.on)), 0)

    def sizes(self, *, by_priority: bool) -> list[int]:
        """The sizes of all, as `sharers` are."""
        found: dict[int, int] = {}
        for part, own in self._by_part.items():
            least, greatest = [one.least for one in own], [one.greatest for one in own]
            weights = [one.ask.priority for one in own] if by_priority else None
            units = self._units(part)
            # Where nodes or power were lost all go down to their least, and the level with them.
            fits = sum(least) <= units
            given = equal_shares(least, greatest, units, weights) if fits else least
            found.update((one.job, size) for one, size in zip(own, given, strict=True))
        return [found[one.job] for one in self.sharers]

    # What the driver and people are told.

    def lacking(self, waiting: Sequence[int], asks: Mapping[int, Ask]) -> Mapping[int, Reason]:
        """Those of the waiting jobs that memory, GPUs, reservations or others keep from a start."""
        if not self.named:
            return {}
        asked = [job for job in waiting if self._site.reservations or asks[job].requests]
        return self._known.lacking(asked) if asked else {}

    def why(self, job: int, ask: Ask) -> Reason:
        """Why a job was not taken in."""
        unit = ask.unit.value
        most = self._site.count
        if ask.unit is SizeUnit.CORES:
            most = max((kind.cores for kind in self._kinds), default=0)
        if ask.least > most:
            text = f"asks for {ask.least} {unit}, more than there are in reach"
            return Reason(job, text, never=True)
        return Reason(
            job, f"its least size, {ask.least} {unit}, does not fit beside those of all others"
        )
