"""Resources shared by equipartition: whole nodes, and the cores of single nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.job_units import count_text, size_text
from wattfold.coordinator.core.model.levels import PLAIN
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import gpus_uw, kind_gpus_uw, node_uw, share_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.equipartition.shares import equal_shares
from wattfold.coordinator.policies.port import JobInformation, NamedJobs, Reason, Site, SizeRequest
from wattfold.coordinator.policies.resources.stock import largest_size
from wattfold.coordinator.policies.resources.uniform_level import greatest_level_uw

_UNITS = "units of"
"""Prefix of the name of a part for the units of a job; no node has such a name."""
Likeness = tuple[object, ...]
"""Properties of a request; jobs with equal properties are rejected together."""
WHOLE = NodeId("")
"""Part of the site that is shared by whole nodes."""


@dataclass(slots=True, kw_only=True)
class EquipartitionJob:
    """A job that shares nodes, or cores of the node ``on``."""

    job: int
    ask: SizeRequest
    least: int
    greatest: int
    size: int
    """Current size; 0 = it is about to start."""
    on: NodeId = WHOLE
    places: tuple[NodeId, ...] = ()
    """Nodes of a job of units, one entry per unit."""


class SharedNodes:
    """The site at one decision, and the jobs that share it. Immovable jobs do not share.

    With ``fewer``, only as many nodes count as the budget supports at the maximum level; otherwise
    as many as it supports at the minimum level.
    """

    def __init__(self, site: Site, jobs: JobInformation, *, fewer: bool) -> None:
        self._site, self._jobs, self._fewer = site, jobs, fewer
        self.sharers: list[EquipartitionJob] = []
        self._by_part: dict[NodeId, list[EquipartitionJob]] = {WHOLE: []}
        self._units_on: Counter[NodeId] = Counter()
        """Cores that jobs of units use, by node."""
        self._closed: set[NodeId] = set()
        """Nodes of exclusive jobs on cores."""
        self._held: set[NodeId] = set()
        """Nodes of running jobs on whole nodes."""
        self._vacated = 0
        """Number of nodes that jobs on whole nodes must leave to others."""
        self._room = None
        self._refused: set[Likeness] = set()
        """Jobs without a place next to the current sharers."""
        self._whys: dict[Likeness, Reason] = {}
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

    def add(self, sharing_job: EquipartitionJob) -> None:
        """Add a running job."""
        if self.named:
            view = self._known.view(sharing_job.job)
            assert view.current is not None
            nodes = [share.node_id for share in view.current.shares]
            if sharing_job.ask.unit is SizeUnit.CORES:
                sharing_job.on = nodes[0]
            elif sharing_job.ask.unit is SizeUnit.UNITS:
                self._put_units(sharing_job, view.current.shares)
            else:
                self._held.update(nodes)
        if self._grows_dear(sharing_job):
            # The common level uses the remaining power, so the job must not take any for its
            # growth.
            sharing_job.greatest = max(
                sharing_job.least, min(sharing_job.greatest, sharing_job.size)
            )
        self._join(sharing_job)

    def _join(self, sharing_job: EquipartitionJob) -> None:
        self._refused.clear()
        self.sharers.append(sharing_job)
        self._by_part.setdefault(sharing_job.on, []).append(sharing_job)
        if sharing_job.on and sharing_job.ask.exclusive:
            self._closed.add(sharing_job.on)

    def _put_units(self, sharing_job: EquipartitionJob, shares: Sequence[Share]) -> None:
        """Place units for good: the job is a part of its own, with all its units."""
        view = self._known.view(sharing_job.job)
        self._beside_units.take(shares, 0, alone=sharing_job.ask.exclusive)
        for share in shares:
            self._units_on[share.node_id] += len(share.cpus)
            if sharing_job.ask.exclusive:
                self._closed.add(share.node_id)
        sharing_job.places = tuple(
            share.node_id for share in shares for _ in range(view.spec.units_on(len(share.cpus)))
        )
        sharing_job.on = NodeId(f"{_UNITS} {sharing_job.job}")
        sharing_job.greatest = sharing_job.least

    def admit(self, sharing_job: EquipartitionJob) -> bool:
        """Add a waiting job if its minimum size fits next to the minimum sizes of all others."""
        like = self._likeness(sharing_job.ask)
        if like in self._refused:
            return False
        vacated, taken = self._vacated, self._admit(sharing_job)
        if vacated != self._vacated:
            self._refused.clear()
        elif not taken and like is not None:
            self._refused.add(like)
        return taken

    def _likeness(self, ask: SizeRequest) -> Likeness | None:
        """Return the properties that a rejection depends on; None if there are others."""
        if ask.requests or self._site.reservations:
            return None
        places = ask.unit, ask.least, ask.exclusive, ask.unit_cores, ask.spread
        return places, ask.cap_uw, ask.dram_uw, ask.gpus, ask.gpu_uw

    def _admit(self, sharing_job: EquipartitionJob) -> bool:
        cores = sharing_job.ask.unit is SizeUnit.CORES
        if not self._feeds_own(sharing_job):
            return False
        if sharing_job.ask.unit is SizeUnit.UNITS:
            return self._admit_units(sharing_job)
        if not cores:
            if sharing_job.least > self._left(WHOLE) or not self._suits(sharing_job, None):
                return False
        else:
            on = self._best(sharing_job)
            if on is None:
                return False
            sharing_job.on = on
        sharing_job.greatest = max(
            sharing_job.least, min(sharing_job.greatest, self._units(sharing_job.on))
        )
        self._join(sharing_job)
        return True

    def _admit_units(self, sharing_job: EquipartitionJob) -> bool:
        """Place the units of a job on nodes that already have units, or else on more nodes."""
        view, room, left = (
            self._known.view(sharing_job.job),
            self._beside_units.copy(),
            self._left(WHOLE),
        )
        takes_ns = room.takes_ns_at_most(view)
        shared = self._shared()
        for node_id in shared & self._by_part.keys():
            # Jobs that share its cores keep their minimum sizes.
            room.free[node_id] = room.free[node_id].take(max(self._left(node_id), 0))
        in_part = [n for n in room.specs if n in shared and n not in self._closed]
        empty = [n for n in self._empty if n not in shared]
        vacant = [n for n in empty if n not in self._held]
        for among in (in_part, in_part + vacant, in_part + empty):
            shares = room.find(view.spec, sharing_job.least, among, takes_ns)
            more = {share.node_id for share in shares or ()} - shared
            if shares is None or len(more) > left:
                continue
            if more & self._held:
                self._vacated += len(more & self._held)  # Jobs may have to leave these nodes first.
                return False
            self._put_units(sharing_job, shares)
            self._join(sharing_job)
            return True
        return False

    def _shared(self) -> set[NodeId]:
        """Return the nodes on which some job has cores or units."""
        parts = {name for name in self._by_part if name and not name.startswith(_UNITS)}
        return parts | self._units_on.keys()

    def _best(self, sharing_job: EquipartitionJob) -> NodeId | None:
        """Return the node with most cores for a job; among equals, with the fewest left over."""
        room = self._room
        assert room is not None, "only named nodes have cores"
        best: tuple[int, int] | None = None
        found: NodeId | None = None
        others = self._left(WHOLE) >= 1
        wanted = False
        picky = self._likeness(sharing_job.ask) is None
        """Whether it requests more than cores, so a node with enough cores may not suit it."""
        for node_id in room.specs:
            residents = self._by_part.get(node_id, ())
            shared = bool(residents) or node_id in self._units_on
            if shared and (sharing_job.ask.exclusive or node_id in self._closed):
                continue
            left = self._left(node_id) - sharing_job.least
            if left < 0 or not (shared or (others and node_id in self._empty)):
                continue
            if picky and not self._suits(sharing_job, node_id):
                continue
            if node_id in self._held:
                wanted = True  # Its job may have to leave it first.
                continue
            gets = min(sharing_job.greatest, sharing_job.least + left // (len(residents) + 1))
            if best is None or (gets, -left) > best:
                best, found = (gets, -left), node_id
        if found is None and wanted:
            self._vacated += 1
        return found

    def _suits(self, sharing_job: EquipartitionJob, node_id: NodeId | None) -> bool:
        """Return whether its minimum size would fit without any other sharing job."""
        room = self._room
        if room is None:
            return True
        view = self._known.view(sharing_job.job)
        takes_ns = room.takes_ns_at_most(view)
        among = self._empty if node_id is None else (node_id,)
        return room.find(view.spec, sharing_job.least, among, takes_ns) is not None

    def _units(self, part: NodeId) -> int:
        """Return the number of nodes, cores or units that a part can share."""
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
        return kind.most_uw if self._fewer else kind.lowest_uw

    @property
    def left_whole(self) -> int:
        """Number of nodes beyond the minimum sizes of all jobs that share whole nodes."""
        return self._left(WHOLE)

    def _left(self, part: NodeId) -> int:
        return self._units(part) - sum(one.least for one in self._by_part.get(part, ()))

    # Power.

    def _own_uw(self) -> int:
        """Return the maximum power of jobs that is not shared.

        This is the power of jobs with their own level, and for other jobs of DRAM above its default
        cap and of GPUs.
        """
        return sum(self._apart_uw(one, one.greatest) for one in self.sharers)

    def _apart_uw(self, sharing_job: EquipartitionJob, size: int) -> int:
        """Return the part of a job's power that is not shared, in microwatts."""
        own_uw = self._cost_uw(sharing_job, size) if sharing_job.ask.cap_uw else 0
        return own_uw + self._beyond_uw(sharing_job) * size + self._gpus_uw(sharing_job, size)

    def _gpus_uw(self, sharing_job: EquipartitionJob, size: int) -> int:
        """Return the maximum power of its GPUs above their floors at a size."""
        if not self._gpus(sharing_job):
            return 0
        view = self._known.view(sharing_job.job)
        if view.current is not None and size == sharing_job.size:
            room = self._room
            assert room is not None
            levels_uw = view.current.levels.gpu_uw
            there = [
                (room.specs[s.node_id], s) for s in view.current.shares if s.node_id in room.specs
            ]
            return sum(gpus_uw(spec, share.gpus, levels_uw) for spec, share in there)
        each = 1 if sharing_job.ask.unit is SizeUnit.CORES else size
        count, level_uw = each * self._gpus(sharing_job), view.spec.levels.gpu_uw
        return max(kind_gpus_uw(kind, count, level_uw) for kind in self._kinds)

    def _gpus(self, sharing_job: EquipartitionJob) -> int:
        """Return the requested GPUs on its node, on each of its nodes, or for each of its units."""
        return self._known.view(sharing_job.job).spec.gpus if self.named else 0

    def _grows_dear(self, sharing_job: EquipartitionJob) -> bool:
        """Return whether more nodes or cores would need power that is not shared."""
        gpus = sharing_job.ask.unit is not SizeUnit.CORES and self._gpus(sharing_job)
        return bool(sharing_job.ask.cap_uw or gpus or self._beyond_uw(sharing_job))

    def _beyond_uw(self, sharing_job: EquipartitionJob) -> int:
        """Return the maximum DRAM power above its default cap, for each node or core."""
        levels = self._known.view(sharing_job.job).spec.levels if self.named else PLAIN
        if self._room is None or not levels.dram_uw:
            return 0
        room = self._room
        return max(
            room.cores_uw(name, n, spec.kind.most_uw, levels)
            - room.cores_uw(name, n, spec.kind.most_uw, PLAIN)
            for name, spec in room.specs.items()
            for n in [_unit_cores(sharing_job.ask, spec.kind)]
        )

    def _cost_uw(self, sharing_job: EquipartitionJob, size: int) -> int:
        level_uw, ask = sharing_job.ask.cap_uw, sharing_job.ask
        if ask.unit is SizeUnit.NODES:
            return max(node_uw(kind, level_uw) * size for kind in self._kinds)
        return max(share_uw(kind, size * ask.unit_cores, level_uw) for kind in self._kinds)

    def _feeds_own(self, sharing_job: EquipartitionJob) -> bool:
        if self._grows_dear(sharing_job):
            sharing_job.greatest = sharing_job.least
        apart_uw = self._apart_uw(sharing_job, sharing_job.least)
        return not apart_uw or apart_uw <= self._power_uw - self._own_uw()

    def level_uw(self, sizes: Sequence[int]) -> int:
        """Return the common level of all jobs without their own level, in microwatts."""
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

    def _parts(
        self, sharing_job: EquipartitionJob, size: int
    ) -> Iterable[tuple[NodeKind, int, int]]:
        """Return node kind, cores per node and number of nodes of a job at a size.

        Nodes that are not known yet count with the maximum power of all kinds.
        """
        if sharing_job.places:
            assert self._room is not None
            specs, on = self._room.specs, Counter(sharing_job.places)
            return tuple(
                (specs[name].kind, units * sharing_job.ask.unit_cores, 1)
                for name, units in on.items()
                if name in specs
            )
        if sharing_job.on:
            assert self._room is not None
            return ((self._room.specs[sharing_job.on].kind, size, 1),)
        kinds: list[NodeKind] = []
        if self._room is not None and sharing_job.size:
            current = self._known.view(sharing_job.job).current
            assert current is not None
            kinds = [self._room.specs[share.node_id].kind for share in current.shares][:size]
        hungry = max(self._kinds, key=lambda kind: node_uw(kind, kind.most_uw))
        new = ((hungry, hungry.cores, size - len(kinds)),) if size > len(kinds) else ()
        return (*((kind, kind.cores, 1) for kind in kinds), *new)

    # Sizes.

    def meet(self, needed: Iterable[tuple[EquipartitionJob, int]]) -> None:
        """Raise the minimum sizes of these jobs, in order, as far as others permit."""
        for one, size in needed:
            one.least += max(min(size - one.least, self._left(one.on)), 0)

    def sizes(self, *, by_priority: bool) -> list[int]:
        """Return the sizes of all jobs, in the order of `sharers`."""
        found: dict[int, int] = {}
        for part, own in self._by_part.items():
            least, greatest = [one.least for one in own], [one.greatest for one in own]
            weights = [one.ask.priority for one in own] if by_priority else None
            units = self._units(part)
            # After a loss of nodes or power all jobs shrink to their minimum, and the level adapts.
            fits = sum(least) <= units
            given = equal_shares(least, greatest, units, weights) if fits else least
            found.update((one.job, size) for one, size in zip(own, given, strict=True))
        return [found[one.job] for one in self.sharers]

    # Reports to the driver and to users.

    def lacking(
        self, waiting: Sequence[int], asks: Mapping[int, SizeRequest]
    ) -> Mapping[int, Reason]:
        """Return the waiting jobs that lack memory, GPUs or reserved nodes, with the reasons."""
        if not self.named:
            return {}
        asked = [job for job in waiting if self._site.reservations or asks[job].requests]
        return self._known.lacking(asked) if asked else {}

    def why(self, job: int, ask: SizeRequest) -> Reason:
        """Return why a job was not admitted."""
        like = self._likeness(ask)
        if like is None:
            return self._why(job, ask)
        told = self._whys.get(like)
        if told is None:
            told = self._whys[like] = self._why(job, ask)
        return Reason(job, told.text, told.never)

    def _why(self, job: int, ask: SizeRequest) -> Reason:
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
            f"no room for {asked} next to the minimum sizes of other jobs",
        )


def _unit_cores(ask: SizeRequest, kind: NodeKind) -> int:
    """Return the number of cores of a node in one unit of a job's size."""
    return kind.cores if ask.unit is SizeUnit.NODES else ask.unit_cores
