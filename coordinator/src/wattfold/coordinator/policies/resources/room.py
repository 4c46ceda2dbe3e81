"""Free resources of the nodes, and the choice of nodes and cores for jobs of given sizes.

Running jobs stay where they are: a shrinking job keeps some of its cores, and a growing job takes
free cores of its node. A new job goes to the node with the fewest leftover cores, so large holes
stay whole; the first such node wins. `unit_places` places the units of a job. The placement
strategy of the nodes chooses whole nodes (`placement`). `core_choice` chooses the cores of a node
by sockets and siblings. All computations use exact core sets, so the results are disjoint by
construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.job_units import units_over, units_within
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot, Waiting
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.core.power.charge import cores_uw, shares_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.placement.choice import Chooser
from wattfold.coordinator.policies.placement.core_choice import NodeCores, choose
from wattfold.coordinator.policies.placement.unit_places import Fit, chosen, in_turn
from wattfold.coordinator.policies.resources.estimates import asked_ns, longest_ns
from wattfold.coordinator.policies.resources.stock import Stock

NO_WINDOWS = Windows()
NO_CORES = CpuSet()


class Room:
    """Free cores of every node and free power above the floors.

    ``stock`` holds memory and GPUs, which shares take and release. Jobs that request neither never
    use it. ``power_uw`` may be negative after a budget decrease; then no job that draws power fits.
    ``windows`` holds the reservations. Every search respects them for a job that begins at
    ``at_ns`` and runs for the given time.
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
        """Return all resources for jobs that begin now, with nothing taken."""
        windows = Windows(snapshot.reservations)
        return cls(snapshot.nodes, snapshot.spendable_uw, windows, now_ns)

    def copy(self) -> Room:
        """Return an independent copy."""
        twin = copy(self)
        twin.free, twin.stock = dict(self.free), self.stock.copy()
        return twin

    def cores_of(self, node_id: NodeId) -> NodeCores:
        """Return the topology of a node and the cores to avoid."""
        return NodeCores(
            topology=self.specs[node_id].topology, avoid=self.avoid.get(node_id, CpuSet())
        )

    def power_of(self, shares: Iterable[Share], cap_uw: int, levels: Levels = PLAIN) -> int:
        """Return the power above the floors of these cores at a level, in microwatts."""
        return shares_uw(shares, self.specs, cap_uw, levels, self.dram_cap_uw)

    def given_uw(self, given: Assignment) -> int:
        """Return `power_of` for the resources of a job."""
        return self.power_of(given.shares, given.cap_uw, given.levels)

    def cores_uw(self, node_id: NodeId, cores: int, cap_uw: int, levels: Levels) -> int:
        """Return the power above the floor of ``cores`` cores of a node, in microwatts."""
        return cores_uw(self.specs[node_id], cores, cap_uw, levels, self.dram_cap_uw)

    def part_uw(self, node_id: NodeId, spec: JobSpec, cores: int, cap_uw: int) -> int:
        """Return the maximum power above the floor of a job on ``cores`` cores of a node."""
        gpus = spec.amounts_on(cores).gpus
        node = self.specs[node_id]
        return cores_uw(node, cores, cap_uw, spec.levels, self.dram_cap_uw, gpus)

    def kinds_under(self, shares: Iterable[Share]) -> tuple[NodeKind, ...]:
        """Return the different kinds of the reachable nodes of these cores."""
        under = {id(kind): kind for kind in self._kinds(shares)}
        return tuple(under.values())

    def held_uw(self, shares: Iterable[Share], cap_uw: int) -> int:
        """Return the level, limited to the cap ranges of the nodes; the charge stays the same."""
        kinds = self.kinds_under(shares)
        if not kinds:
            return cap_uw
        most_uw, lowest_uw = max(k.most_uw for k in kinds), min(k.lowest_uw for k in kinds)
        return max(min(cap_uw, most_uw), lowest_uw)

    def _kinds(self, shares: Iterable[Share]) -> Iterator[NodeKind]:
        return (self.specs[s.node_id].kind for s in shares if s.node_id in self.specs)

    def units_by_kind(self) -> tuple[int, ...]:
        """Return the free cores by node kind, in order of appearance; empty for identical nodes."""
        own = self._of_kind.values()
        return tuple(sum(len(self.free[node_id]) for node_id in nodes) for nodes in own)

    def of_kind(self, kind: NodeKind) -> list[NodeId] | None:
        """Return the nodes of a kind, or None (any node) if all nodes are identical."""
        return None if self.alike else self._of_kind[kind]

    def take(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Take these cores and this power; ``alone`` also takes the rest of the nodes."""
        for share in shares:
            if share.node_id in self.free:
                left = NO_CORES if alone else self.free[share.node_id] - share.cpus
                self.free[share.node_id] = left
            if share.memory_bytes or share.gpus:
                self.stock.take(share)
        self.power_uw -= power_uw

    def give_back(self, shares: Iterable[Share], power_uw: int, alone: bool = False) -> None:
        """Undo `take`."""
        for share in shares:
            if share.node_id in self.free:
                free = self.free[share.node_id]
                back = self.whole[share.node_id] if alone else share.cpus
                self.free[share.node_id] = free | back if free.cpus else back
            if share.memory_bytes or share.gpus:
                self.stock.give_back(share)
        self.power_uw += power_uw

    def takes_ns(self, view: JobView, size: int, cap_uw: int) -> int:
        """Return the run time to assume for a job at a size and a level in a search for nodes.

        This is its time limit, or else the user's estimate on the slowest nodes. It is 0 if no
        reservation concerns the job.
        """
        if not self.windows.concern(view.spec):
            return 0
        return view.spec.limit_ns or asked_ns(view, self._all_kinds(), size, cap_uw)

    def takes_ns_at_most(self, view: JobView) -> int:
        """Return the upper bound of `takes_ns` over all sizes and levels."""
        if not self.windows.concern(view.spec):
            return 0
        return view.spec.limit_ns or longest_ns(view, self._all_kinds())

    def open(self, spec: JobSpec, takes_ns: int, among: Iterable[NodeId]) -> list[NodeId]:
        """Return the nodes that no reservation withholds from a job."""
        ends_ns = self.at_ns + takes_ns
        return [n for n in among if self.windows.open(spec, n, self.at_ns, ends_ns)]

    def kept(self, spec: JobSpec, size: int, cap_uw: int, takes_ns: int) -> str:
        """Return which reservation alone withholds nodes from a job, for users; else ""."""
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
        """Return cores for a new job on some of the nodes, or None if it does not fit.

        Power is not checked; see `find_fed`.
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
        """Return cores as `find` does, within the remaining power at a level; else None.

        If the first choice needs too much power, nodes with lower power are tried. An empty
        ``within`` permits all nodes. For a job of units, ``within`` names a node once for each unit
        on it.
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
        """Return the nodes with ``size`` free cores, each with its number of leftover cores."""
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
        """Return the nodes with free resources for units of a job, numbered as in `specs`."""
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
        """Return cores for as many units on each node as it is named."""
        wanted, names = Counter(nodes), list(self.specs)
        fits = self._fits(spec, wanted)
        places = [
            (fit.at, wanted[names[fit.at]]) for fit in fits if fit.units >= wanted[names[fit.at]]
        ]
        shares = self._units(places, spec) if len(places) == len(wanted) else None
        fed = shares is not None and self.power_of(shares, cap_uw, spec.levels) <= self.power_uw
        return shares if fed else None

    def units_free(self, spec: JobSpec, among: Iterable[NodeId]) -> int:
        """Return the number of units of a job that fit on these nodes, ignoring reservations."""
        return units_over(spec, (fit.units for fit in self._fits(spec, among)))

    def _units(
        self, places: Sequence[tuple[int, int]] | None, spec: JobSpec
    ) -> tuple[Share, ...] | None:
        """Return cores for the given number of units on each of these nodes."""
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
        """Return the number of nodes for a job on whole nodes, ignoring reservations."""
        return len(self._empty(None, spec))

    def _empty(self, among: Iterable[NodeId] | None, spec: JobSpec) -> list[NodeId]:
        nodes = self.specs if among is None else among
        free, specs = self.free, self.specs
        # The sets of numbers, because the comparison of two `CpuSet` takes five times as long.
        empty = [n for n in nodes if free[n].cpus == specs[n].cpus.cpus]
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
    """Return whether no other job may share the nodes of the job."""
    return spec.alone


def nothing_in_reach(snapshot: Snapshot) -> Plan:
    """Return the plan without reachable nodes: running jobs continue, all others wait."""
    kept = tuple(view.current for view in snapshot.jobs if view.current is not None)
    waiting = tuple(
        Waiting(job_id=view.job_id, reason="no node is reachable")
        for view in snapshot.jobs
        if view.current is None
    )
    return Plan(assignments=kept, waiting=waiting, solver="none", outcome="optimal")
