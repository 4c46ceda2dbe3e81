"""What equipartition shares: whole nodes among some jobs, and the cores of a node among others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.charge import gpus_uw, kind_gpus_uw, node_uw, share_uw
from wattfold.coordinator.core.job import Share
from wattfold.coordinator.core.job_units import count_text, size_text
from wattfold.coordinator.core.levels import PLAIN
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.easy_uniform import greatest_level_uw
from wattfold.coordinator.policies.equal_shares import equal_shares
from wattfold.coordinator.policies.placement import largest_size
from wattfold.coordinator.policies.scheduler import Ask, Jobs, NamedJobs, Reason, Site

_UNITS = "units of"
"""Begins the name of a part that is the units of one job; no node is called so."""
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
    places: tuple[NodeId, ...] = ()
    """Nodes of a job of units, each named once for every unit there."""


class Ground:
    """The site at one decision, and who shares it. Jobs of which nothing may change are not asked.

    ``fewer``: only so many nodes count as the budget feeds at the greatest level; else as many as
    it feeds at the least.
    """

    def __init__(self, site: Site, jobs: Jobs, *, fewer: bool) -> None:
        self._site, self._jobs, self._fewer = site, jobs, fewer
        self.sharers: list[Sharer] = []
        self._by_part: dict[NodeId, list[Sharer]] = {WHOLE: []}
        self._units_on: Counter[NodeId] = Counter()
        """Cores of nodes that units of jobs have which count such."""
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
            self._beside_units = self._room.copy()

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
            elif one.ask.unit is SizeUnit.UNITS:
                self._put_units(one, view.current.shares)
            else:
                self._held.update(nodes)
        if self._grows_dear(one):
            # The level of all others is made of what is left: none of it is for its growth.
            one.greatest = max(one.least, min(one.greatest, one.size))
        self._join(one)

    def _join(self, one: Sharer) -> None:
        self.sharers.append(one)
        self._by_part.setdefault(one.on, []).append(one)
        if one.on and one.ask.exclusive:
            self._closed.add(one.on)

    def _put_units(self, one: Sharer, shares: Sequence[Share]) -> None:
        """Units stay where they are: such a job is a part of its own, with all that it has."""
        view = self._known.view(one.job)
        self._beside_units.take(shares, 0, alone=one.ask.exclusive)
        for share in shares:
            self._units_on[share.node_id] += len(share.cpus)
            if one.ask.exclusive:
                self._closed.add(share.node_id)
        one.places = tuple(
            share.node_id for share in shares for _ in range(view.spec.units_on(len(share.cpus)))
        )
        one.on = NodeId(f"{_UNITS} {one.job}")
        one.greatest = one.least

    def admit(self, one: Sharer) -> bool:
        """Takes in a job that waits, if its least size fits beside those of all others."""
        cores = one.ask.unit is SizeUnit.CORES
        if not self._feeds_own(one):
            return False
        if one.ask.unit is SizeUnit.UNITS:
            return self._admit_units(one)
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

    def _admit_units(self, one: Sharer) -> bool:
        """Puts the units of a job on nodes that have some already, else on some more."""
        view, room, left = self._known.view(one.job), self._beside_units.copy(), self._left(WHOLE)
        takes_ns = room.takes_ns_at_most(view)
        shared = self._shared()
        for node_id in shared & self._by_part.keys():
            # Those that share its cores keep their least.
            room.free[node_id] = room.free[node_id].take(max(self._left(node_id), 0))
        in_part = [n for n in room.specs if n in shared and n not in self._closed]
        empty = [n for n in self._empty if n not in shared]
        vacant = [n for n in empty if n not in self._held]
        for among in (in_part, in_part + vacant, in_part + empty):
            shares = room.find(view.spec, one.least, among, takes_ns)
            more = {share.node_id for share in shares or ()} - shared
            if shares is None or len(more) > left:
                continue
            if more & self._held:
                self._vacated += len(more & self._held)  # Their jobs may have to leave them first.
                return False
            self._put_units(one, shares)
            self._join(one)
            return True
        return False

    def _shared(self) -> set[NodeId]:
        """Nodes of which some job has cores or units."""
        parts = {name for name in self._by_part if name and not name.startswith(_UNITS)}
        return parts | self._units_on.keys()

    def _best(self, one: Sharer) -> NodeId | None:
        """The node on which a job gets most cores; of equal ones that with the least left over."""
        room = self._room
        assert room is not None, "only named nodes have cores"
        best: tuple[int, int] | None = None
        found: NodeId | None = None
        others = self._left(WHOLE) >= 1
        wanted = False
        for node_id in room.specs:
            residents = self._by_part.get(node_id, ())
            shared = bool(residents) or node_id in self._units_on
            if shared and (one.ask.exclusive or node_id in self._closed):
                continue
            left = self._left(node_id) - one.least
            if left < 0 or not (shared or (others and node_id in self._empty)):
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
        """Nodes, cores or units that a part has to share."""
        if part.startswith(_UNITS):
            return sum(one.least for one in self._by_part.get(part, ()))
        if part:
            assert self._room is not None
            return len(self._room.free[part]) - self._units_on[part]
        others = self._shared()
        shared = len(others) + self._vacated
        nodes = self._site.count
        if self._room is not None:
            nodes = sum(node_id not in others for node_id in self._empty) - self._vacated
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
        """What jobs with levels of their own take at most, and others for DRAM beyond its standing
        cap and for GPUs."""
        return sum(self._apart_uw(one, one.greatest) for one in self.sharers)

    def _apart_uw(self, one: Sharer, size: int) -> int:
        """What of a job's power is no part of what the others share, microwatts."""
        own_uw = self._cost_uw(one, size) if one.ask.cap_uw else 0
        return own_uw + self._beyond_uw(one) * size + self._gpus_uw(one, size)

    def _gpus_uw(self, one: Sharer, size: int) -> int:
        """What its GPUs take above their floors at a size, at most."""
        if not self._gpus(one):
            return 0
        view = self._known.view(one.job)
        if view.current is not None and size == one.size:
            room = self._room
            assert room is not None
            levels_uw = view.current.levels.gpu_uw
            there = [
                (room.specs[s.node_id], s) for s in view.current.shares if s.node_id in room.specs
            ]
            return sum(gpus_uw(spec, share.gpus, levels_uw) for spec, share in there)
        each = 1 if one.ask.unit is SizeUnit.CORES else size
        count, level_uw = each * self._gpus(one), view.spec.levels.gpu_uw
        return max(kind_gpus_uw(kind, count, level_uw) for kind in self._kinds)

    def _gpus(self, one: Sharer) -> int:
        """GPUs that it asks for on its node, on each of its nodes, or for each of its units."""
        return self._known.view(one.job).spec.gpus if self.named else 0

    def _grows_dear(self, one: Sharer) -> bool:
        """Whether more nodes or cores would take power that is no part of what others share."""
        gpus = one.ask.unit is not SizeUnit.CORES and self._gpus(one)
        return bool(one.ask.cap_uw or gpus or self._beyond_uw(one))

    def _beyond_uw(self, one: Sharer) -> int:
        """What DRAM takes beyond its standing cap, at most, for each node or core."""
        levels = self._known.view(one.job).spec.levels if self.named else PLAIN
        if self._room is None or not levels.dram_uw:
            return 0
        room = self._room
        return max(
            room.cores_uw(name, n, spec.kind.most_uw, levels)
            - room.cores_uw(name, n, spec.kind.most_uw, PLAIN)
            for name, spec in room.specs.items()
            for n in [_unit_cores(one.ask, spec.kind)]
        )

    def _cost_uw(self, one: Sharer, size: int) -> int:
        level_uw, ask = one.ask.cap_uw, one.ask
        if ask.unit is SizeUnit.NODES:
            return max(node_uw(kind, level_uw) * size for kind in self._kinds)
        return max(share_uw(kind, size * ask.unit_cores, level_uw) for kind in self._kinds)

    def _feeds_own(self, one: Sharer) -> bool:
        if self._grows_dear(one):
            one.greatest = one.least
        apart_uw = self._apart_uw(one, one.least)
        return not apart_uw or apart_uw <= self._power_uw - self._own_uw()

    def level_uw(self, sizes: Sequence[int]) -> int:
        """The one level, microwatts, of all jobs that have none of their own."""
        parts: list[tuple[NodeKind, int, int]] = []
        power_uw = self._power_uw
        for one, size in zip(self.sharers, sizes, strict=True):
            power_uw -= self._apart_uw(one, size)
            if not one.ask.cap_uw:
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
        if one.places:
            assert self._room is not None
            specs, on = self._room.specs, Counter(one.places)
            return tuple(
                (specs[name].kind, units * one.ask.unit_cores, 1)
                for name, units in on.items()
                if name in specs
            )
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
        asked = count_text(ask.least, ask.unit)
        most = self._site.count
        if ask.unit is SizeUnit.CORES:
            most = max((kind.cores for kind in self._kinds), default=0)
        elif ask.unit is SizeUnit.UNITS:
            spec = self._known.view(job).spec
            asked, most = size_text(spec, ask.least), largest_size(spec, self._site.nodes)
        if ask.least > most:
            return Reason(job, f"requests {asked}, more than the reachable nodes have", never=True)
        return Reason(
            job,
            f"its minimum size, {asked}, does not fit next to the minimum sizes of the other jobs",
        )


def _unit_cores(ask: Ask, kind: NodeKind) -> int:
    """Cores of a node that each of what sizes count takes."""
    return kind.cores if ask.unit is SizeUnit.NODES else ask.unit_cores
