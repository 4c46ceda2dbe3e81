"""Which nodes and cores a job gets, once a policy has chosen its size.

Running jobs stay where they are: one that shrinks keeps some of its cores, one that grows takes
free cores of its node. New jobs go to the node that they fill best (fewest cores left over), so
that large holes stay whole; ties go to the node that comes first. Units of one job go where
`unit_places` says. Whole nodes are chosen by the strategy that their places name
(`node_selection`). Which cores of a node, by sockets and siblings, is told by `core_choice`. All in
exact core sets: what comes out is disjoint by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.amounts import Amounts
from wattfold.coordinator.core.charge import cores_uw, shares_uw
from wattfold.coordinator.core.job import Assignment, JobSpec, Share, SizeUnit
from wattfold.coordinator.core.job_units import units_over, units_within
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.node import NodeKind, NodeSpec
from wattfold.coordinator.core.plan import JobView, NodeView, Plan, Snapshot, Waiting
from wattfold.coordinator.core.reservation import Windows
from wattfold.coordinator.policies.core_choice import NodeCores, Want, choose, distribute
from wattfold.coordinator.policies.estimates import asked_ns, longest_ns
from wattfold.coordinator.policies.node_selection.choice import Chooser
from wattfold.coordinator.policies.stock import Stock, could_hold
from wattfold.coordinator.policies.unit_places import Fit, chosen, in_turn

NO_WINDOWS = Windows()


class Room:
    """Free cores of every node and free power above the floors, to be taken from.

    ``stock`` is the memory and the GPUs, which are taken and given back with the shares that name
    them; jobs that ask for neither never look at it.
    ``power_uw`` may be negative (a budget just lowered): then nothing that draws power fits.
    ``windows`` are the reservations, which every search for a place goes by: of a job that is to
    begin at ``at_ns`` and will take so long.
    """

    def __init__(
        self,
        nodes: Sequence[NodeView],
        power_uw: int,
        windows: Windows = NO_WINDOWS,
        at_ns: int = 0,
    ) -> None:
        self.specs: dict[NodeId, NodeSpec] = {n.spec.node_id: n.spec for n in nodes}
        self.whole: dict[NodeId, CpuSet] = {n.spec.node_id: n.spec.cpus - n.blocked for n in nodes}
        self.free: dict[NodeId, CpuSet] = dict(self.whole)
        self.avoid: dict[NodeId, CpuSet] = {n.spec.node_id: n.residual for n in nodes if n.residual}
        self.power_uw = power_uw
        self.dram_cap_uw = nodes[0].dram_cap_uw if nodes else 0
        self.windows, self.at_ns = windows, at_ns
        self.stock = Stock(nodes)
        self._chooser = Chooser(nodes)
        self.alike = len({id(n.spec.kind) for n in nodes}) <= 1
        self._of_kind: dict[NodeKind, list[NodeId]] = {}
        for view in () if self.alike else nodes:
            self._of_kind.setdefault(view.spec.kind, []).append(view.spec.node_id)

    @classmethod
    def of(cls, snapshot: Snapshot, now_ns: int) -> Room:
        """All there is for jobs that begin now; nothing is taken yet."""
        windows = Windows(snapshot.reservations)
        return cls(snapshot.nodes, snapshot.spendable_uw, windows, now_ns)

    def copy(self) -> Room:
        """An independent copy."""
        twin = Room((), self.power_uw, self.windows, self.at_ns)
        twin.specs, twin.whole, twin.free = self.specs, self.whole, dict(self.free)
        twin.avoid, twin.alike, twin._of_kind = self.avoid, self.alike, self._of_kind
        twin.stock, twin._chooser = self.stock.copy(), self._chooser
        twin.dram_cap_uw = self.dram_cap_uw
        return twin

    def cores_of(self, node_id: NodeId) -> NodeCores:
        """What there is to know of the cores of a node."""
        return NodeCores(
            topology=self.specs[node_id].topology, avoid=self.avoid.get(node_id, CpuSet())
        )

    def power_of(self, shares: Iterable[Share], cap_uw: int, levels: Levels = PLAIN) -> int:
        """Power above the floors of these cores at a level, microwatts."""
        return shares_uw(shares, self.specs, cap_uw, levels, self.dram_cap_uw)

    def given_uw(self, given: Assignment) -> int:
        """`power_of` what a job has."""
        return self.power_of(given.shares, given.cap_uw, given.levels)

    def cores_uw(self, node_id: NodeId, cores: int, cap_uw: int, levels: Levels) -> int:
        """Power above the floor of so many cores of a node, microwatts."""
        return cores_uw(self.specs[node_id], cores, cap_uw, levels, self.dram_cap_uw)

    def part_uw(self, node_id: NodeId, spec: JobSpec, cores: int, cap_uw: int) -> int:
        """Power above the floors that a job takes with so many cores of a node, at most."""
        gpus = spec.amounts_on(cores).gpus
        node = self.specs[node_id]
        return cores_uw(node, cores, cap_uw, spec.levels, self.dram_cap_uw, gpus)

    def kinds_under(self, shares: Iterable[Share]) -> tuple[NodeKind, ...]:
        """The different kinds of the nodes in reach that these cores are on."""
        under = {id(kind): kind for kind in self._kinds(shares)}
        return tuple(under.values())

    def held_uw(self, shares: Iterable[Share], cap_uw: int) -> int:
        """A level within what any of the nodes of these cores can hold; it costs no more there."""
        kinds = self.kinds_under(shares)
        if not kinds:
            return cap_uw
        most_uw, floor_uw = max(k.most_uw for k in kinds), min(k.floor_uw for k in kinds)
        return max(min(cap_uw, most_uw), floor_uw)

    def _kinds(self, shares: Iterable[Share]) -> Iterator[NodeKind]:
        return (self.specs[s.node_id].kind for s in shares if s.node_id in self.specs)

    def units_by_kind(self) -> tuple[int, ...]:
        """Free cores by kind of node, as the kinds first come; empty where nodes are alike."""
        own = self._of_kind.values()
        return tuple(sum(len(self.free[node_id]) for node_id in nodes) for nodes in own)

    def of_kind(self, kind: NodeKind) -> list[NodeId] | None:
        """The nodes of one kind; None where nodes are alike, that is, any."""
        return None if self.alike else self._of_kind[kind]

    def take(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Gives these cores and this power away; ``alone`` takes the rest of the nodes too."""
        for share in shares:
            if share.node_id in self.free:
                left = self.free[share.node_id] - share.cpus
                self.free[share.node_id] = CpuSet() if alone else left
            self.stock.take(share)
        self.power_uw -= power_uw

    def give_back(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Undoes `take`."""
        for share in shares:
            if share.node_id in self.free:
                back = self.whole[share.node_id] if alone else share.cpus
                self.free[share.node_id] = self.free[share.node_id] | back
            self.stock.give_back(share)
        self.power_uw += power_uw

    def takes_ns(self, view: JobView, size: int, cap_uw: int) -> int:
        """How long a job at a size and a level is to be taken to run in a search for its place.

        Its time limit, else its user's estimate on the slowest nodes; 0 where nobody asks.
        """
        if not self.windows.concern(view.spec):
            return 0
        return view.spec.limit_ns or asked_ns(view, self._all_kinds(), size, cap_uw)

    def takes_ns_at_most(self, view: JobView) -> int:
        """`takes_ns` whatever size and level it gets."""
        if not self.windows.concern(view.spec):
            return 0
        return view.spec.limit_ns or longest_ns(view, self._all_kinds())

    def open(self, spec: JobSpec, takes_ns: int, among: Iterable[NodeId]) -> list[NodeId]:
        """The nodes that no reservation keeps from a job."""
        ends_ns = self.at_ns + takes_ns
        return [n for n in among if self.windows.open(spec, n, self.at_ns, ends_ns)]

    def kept(self, spec: JobSpec, size: int, cap_uw: int, takes_ns: int) -> str:
        """Which reservation alone keeps a job from its place, for people; empty if none does."""
        if not self.windows.concern(spec):
            return ""
        free, plain = self.copy(), replace(spec, reservation="")
        free.windows = NO_WINDOWS
        own = self.windows.own(spec)
        if own is not None:
            shares = free.find(plain, size, [n for n in own.nodes if n in self.specs])
        else:
            shares = free.find_fed(plain, size, cap_uw)
        nodes = [share.node_id for share in shares or ()]
        return self.windows.why(spec, nodes, self.at_ns, self.at_ns + takes_ns)

    def _all_kinds(self) -> list[NodeKind]:
        return list({id(spec.kind): spec.kind for spec in self.specs.values()}.values())

    def find(
        self,
        spec: JobSpec,
        size: int,
        among: Iterable[NodeId] | None = None,
        takes_ns: int = 0,
    ) -> tuple[Share, ...] | None:
        """Cores for a new job on some of the nodes, None if there is no place.

        Power is not looked at; `find_fed` does.
        """
        if self.windows.concern(spec):
            among = self.open(spec, takes_ns, self.specs if among is None else among)
        if spec.unit is SizeUnit.NODES:
            return self._whole(self._chooser.choose(self._empty(among, spec), size), spec, size)
        if spec.unit is SizeUnit.UNITS:
            return self._units(chosen(spec.spread, size, self._fits(spec, among)), spec)
        return self._best_filled(self._holes(spec, size, among), spec, size)

    def find_fed(
        self,
        spec: JobSpec,
        size: int,
        cap_uw: int,
        takes_ns: int = 0,
        within: Sequence[NodeId] = (),
    ) -> tuple[Share, ...] | None:
        """`find`, for a place that the power left feeds at a level; None if there is none.

        Where the first choice takes too much, nodes that take less are looked for. ``within``
        empty: on any nodes; of a job of units it names a node once for each unit there.
        """
        if within and spec.unit is SizeUnit.UNITS:
            return self._exactly(spec, within, cap_uw)
        shares = self.find(spec, size, within or None, takes_ns)
        levels = spec.levels
        if shares is None or self.power_of(shares, cap_uw, levels) <= self.power_uw:
            return shares
        if self.alike:
            return None
        among: Sequence[NodeId] | None = within or None
        if self.windows.concern(spec):
            among = self.open(spec, takes_ns, within or self.specs)
        if spec.unit is SizeUnit.NODES:
            empty = self._empty(among, spec)
            frugal = sorted(
                empty, key=lambda n: self.part_uw(n, spec, len(self.specs[n].cpus), cap_uw)
            )
            shares = self._whole(frugal[:size], spec, size)
        elif spec.unit is SizeUnit.UNITS:
            names, cores = list(self.specs), spec.unit_cores
            thrifty = sorted(
                self._fits(spec, among),
                key=lambda fit: self.part_uw(names[fit.at], spec, cores, cap_uw),
            )
            shares = self._units(in_turn(spec.spread, size, thrifty), spec)
        else:
            fed = [
                hole
                for hole in self._holes(spec, size, among)
                if self.part_uw(hole[1], spec, size, cap_uw) <= self.power_uw
            ]
            shares = self._best_filled(fed, spec, size)
        fits = shares is not None and self.power_of(shares, cap_uw, levels) <= self.power_uw
        return shares if fits else None

    def _holes(
        self, spec: JobSpec, size: int, among: Iterable[NodeId] | None
    ) -> list[tuple[int, NodeId]]:
        """Nodes with so many cores free, and how many would be left over."""
        return [
            (len(self.free[node_id]) - size, node_id)
            for node_id in (self.specs if among is None else among)
            if len(self.free[node_id]) >= size
            and (not spec.exclusive or self.free[node_id] == self.specs[node_id].cpus)
            and (not spec.requests or self.stock.holds(node_id, spec))
        ]

    def _best_filled(
        self, holes: list[tuple[int, NodeId]], spec: JobSpec, size: int
    ) -> tuple[Share, ...] | None:
        if not holes:
            return None
        best = min(holes, key=lambda hole: hole[0])[1]
        cpus = choose(size, self.free[best], CpuSet(), self.cores_of(best))
        return (self._share(best, cpus, spec),)

    def _fits(self, spec: JobSpec, among: Iterable[NodeId] | None) -> list[Fit]:
        """The nodes with room for units of a job; numbers of nodes are their places in `specs`."""
        within = None if among is None else frozenset(among)
        fits: list[Fit] = []
        for at, (node_id, free) in enumerate(self.free.items()):
            if (within is not None and node_id not in within) or len(free) < spec.unit_cores:
                continue
            if spec.exclusive and free != self.specs[node_id].cpus:
                continue
            left = Amounts(cores=len(free))
            if spec.requests:
                if not self.stock.holds(node_id, spec):
                    continue
                left += self.stock.free(node_id)
            fits.append(Fit(units_within(spec, left), len(free), at))
        return fits

    def _exactly(
        self, spec: JobSpec, nodes: Sequence[NodeId], cap_uw: int
    ) -> tuple[Share, ...] | None:
        """A unit on a node for each time that it is named."""
        wanted, names = Counter(nodes), list(self.specs)
        fits = self._fits(spec, wanted)
        places = [
            (fit.at, wanted[names[fit.at]]) for fit in fits if fit.units >= wanted[names[fit.at]]
        ]
        shares = self._units(places, spec) if len(places) == len(wanted) else None
        fed = shares is not None and self.power_of(shares, cap_uw, spec.levels) <= self.power_uw
        return shares if fed else None

    def units_free(self, spec: JobSpec, among: Iterable[NodeId]) -> int:
        """How many units a job could have on these nodes, whatever is reserved."""
        return units_over(spec, (fit.units for fit in self._fits(spec, among)))

    def _units(
        self, places: Sequence[tuple[int, int]] | None, spec: JobSpec
    ) -> tuple[Share, ...] | None:
        """So many units on each of these nodes."""
        if places is None:
            return None
        names = list(self.specs)
        shares = []
        for at, units in places:
            node_id, count = names[at], units * spec.unit_cores
            cores = self.cores_of(node_id)
            cpus = choose(count, self.free[node_id], CpuSet(), cores, tasks=units)
            shares.append(self._share(node_id, cpus, spec))
        return tuple(shares)

    def empty_count(self, spec: JobSpec) -> int:
        """How many nodes a job that takes them whole could have, whatever is reserved."""
        return len(self._empty(None, spec))

    def _empty(self, among: Iterable[NodeId] | None, spec: JobSpec) -> list[NodeId]:
        nodes = self.specs if among is None else among
        empty = [n for n in nodes if self.free[n] == self.specs[n].cpus]
        return [n for n in empty if self.stock.holds(n, spec)] if spec.requests else empty

    def _whole(self, nodes: list[NodeId], spec: JobSpec, size: int) -> tuple[Share, ...] | None:
        if len(nodes) < size:
            return None
        return tuple(self._share(n, self.specs[n].cpus, spec) for n in nodes)

    def _share(self, node_id: NodeId, cpus: CpuSet, spec: JobSpec) -> Share:
        if not spec.requests:
            return Share(node_id=node_id, cpus=cpus)
        due = spec.amounts_on(len(cpus))
        gpus = self.stock.free_gpus(node_id)[: due.gpus]
        return Share(node_id=node_id, cpus=cpus, memory_bytes=due.memory_bytes, gpus=gpus)


def takes_whole_nodes(spec: JobSpec) -> bool:
    """Whether nobody else may be on the job's nodes."""
    return spec.alone


def resize_in_place(
    running: Sequence[tuple[JobView, int]],
    room: Room,
) -> dict[str, tuple[Share, ...]]:
    """New cores of the running jobs at their new sizes; first all that shrink, then the others.

    ``room`` holds everything else and is left with what remains free. A job that cannot grow as
    far as asked (blocked cores) gets what there is.
    """
    shares: dict[str, tuple[Share, ...]] = {}
    wants: dict[NodeId, list[Want]] = {}
    held: dict[JobId, Share] = {}
    for view, size in running:
        assert view.current is not None
        room.take(view.current.shares, 0, takes_whole_nodes(view.spec))
        if view.spec.unit is not SizeUnit.CORES or size == view.current.size:
            shares[view.job_id] = view.current.shares
        elif view.spec.exclusive:
            shares[view.job_id] = (_alone(view.current.shares[0], size, room),)
        else:
            share = view.current.shares[0]
            want = Want(job=view.job_id, size=size, held=share.cpus)
            wants.setdefault(share.node_id, []).append(want)
            held[view.job_id] = share
    for node_id, listed in wants.items():
        for job, cpus in _distributed(node_id, listed, room).items():
            shares[job] = (replace(held[job], cpus=cpus),)
    return shares


def _distributed(node_id: NodeId, wants: list[Want], room: Room) -> dict[JobId, CpuSet]:
    usable = room.free[node_id]
    for want in wants:
        usable = usable | want.held
    given = distribute(wants, usable, room.cores_of(node_id))
    for cpus in given.values():
        usable = usable - cpus
    room.free[node_id] = usable
    return given


def _alone(share: Share, size: int, room: Room) -> Share:
    want = Want(job=JobId(""), size=size, held=share.cpus)
    usable = room.whole[share.node_id] | share.cpus
    cores = distribute([want], usable, room.cores_of(share.node_id))
    return replace(share, cpus=cores[want.job])


def nothing_in_reach(snapshot: Snapshot) -> Plan:
    """The plan without nodes: what runs goes on, the others wait."""
    kept = tuple(view.current for view in snapshot.jobs if view.current is not None)
    waiting = tuple(
        Waiting(job_id=view.job_id, reason="no node is reachable")
        for view in snapshot.jobs
        if view.current is None
    )
    return Plan(assignments=kept, waiting=waiting, solver="none", outcome="optimal")


def largest_size(spec: JobSpec, nodes: Sequence[NodeView]) -> int:
    """The most a job of this kind could ever get on these nodes."""
    if spec.requests:
        nodes = [node for node in nodes if could_hold(node, spec)]
    if spec.unit is SizeUnit.NODES:
        return len(nodes)
    if spec.unit is SizeUnit.UNITS:
        return units_over(spec, (units_within(spec, node.spec.capacity) for node in nodes))
    return max((len(node.spec.cpus) for node in nodes), default=0)
