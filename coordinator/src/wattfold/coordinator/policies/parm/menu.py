"""Nodes for a job as PARM sees them: kinds and counts, and the permitted sizes on each.

A site may name every node, but a decision needs only the number of nodes of each kind.
`NodeSummary` collects these numbers once; no step per job or option examines the nodes again.

If nodes are heterogeneous, a waiting job has several alternatives (`NodeAlternative`). It may use
any nodes of one kind, at levels within their range. If it needs more nodes than any kind has empty,
it may use one kind filled up with others. A running job stays on nodes of its kind, or on its
current nodes if they have several kinds. With one kind there is one alternative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.power.charge import dram_beyond_uw, dram_range_uw, dram_standing_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.parm.options import Charge, DramLevels
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.port import Site, SizeRequest

Sizes = tuple[int, ...]
SizesUpTo = Callable[[int], Sizes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAlternative:
    """An alternative: nodes of these kinds. ``nodes`` as in `Charge`."""

    kinds: tuple[NodeKind, ...]
    nodes: tuple[int, ...] = ()

    def charge(self, ask: SizeRequest) -> Charge:
        """Return how a job is charged there."""
        return Charge(
            kinds=self.kinds,
            unit=ask.unit,
            exclusive=ask.exclusive,
            nodes=self.nodes,
            unit_cores=ask.unit_cores,
            spread=ask.spread,
            gpus=ask.gpus,
        )


Offer = tuple[NodeAlternative, Sizes]
"""An alternative, and the permitted sizes of a job there."""


class NodeSummary:
    """Summary of the nodes of a site for a decision. There is at least one node."""

    def __init__(self, site: Site) -> None:
        self.count = site.count
        # Equal kinds are nearly always the same object, so they are compared by identity first.
        some = {id(node.spec.kind): node.spec.kind for node in site.nodes}
        kinds = (site.kind,) if site.kind else tuple(dict.fromkeys(some.values()))
        self.kinds: tuple[NodeKind, ...] = kinds
        self.alike = len(kinds) == 1
        self._nodes = site.nodes
        self._cores_most = max(kind.cores for kind in kinds)
        self._places = {kind: NodeAlternative(kinds=(kind,)) for kind in kinds}
        self._kind_of: dict[NodeId, NodeKind] = {}
        self._empty: Counter[NodeKind] = Counter()
        if not self.alike:
            self._kind_of = {node.spec.node_id: node.spec.kind for node in site.nodes}
        self._count = Counter(self._kind_of.values())

    def like(self, other: NodeSummary | None) -> bool:
        """Return whether jobs have the same options on both, apart from occupied nodes."""
        return (
            other is not None
            and self.kinds == other.kinds
            and self.count == other.count
            and self._count == other._count
        )

    def occupy(self, used: Collection[NodeId]) -> Counter[NodeKind]:
        """Set the occupied nodes; return the number of empty nodes of each kind."""
        self._empty = Counter(
            node.spec.kind
            for node in self._nodes
            if node.spec.node_id not in used and not node.blocked
        )
        return self._empty

    def largest_size(self, ask: SizeRequest) -> int:
        """Return the maximum size that a job can ever get."""
        if ask.unit is SizeUnit.NODES:
            return self.count
        if ask.unit is SizeUnit.CORES:
            return self._cores_most
        each = [self._most_on(ask, kind) for kind in self.kinds]
        return max(each) if ask.spread is Spread.TOGETHER else sum(each)

    def offers(self, ask: SizeRequest, sizes_up_to: SizesUpTo) -> list[Offer]:
        """Return the alternatives of a waiting job, at least one."""
        first = self._places[self.kinds[0]]
        if self.alike:
            return [(first, sizes_up_to(self.largest_size(ask)))]
        found = self._pure(ask, sizes_up_to)
        if ask.unit is SizeUnit.NODES:
            empty, every = (self._with_gpus(ask, own) for own in (self._empty, self._count))
            found += self._mixed(sizes_up_to(every.total()), empty, every)
        elif ask.unit is SizeUnit.UNITS and ask.spread is not Spread.TOGETHER:
            most = Counter({kind: self._most_on(ask, kind) for kind in self.kinds})
            found += self._mixed(sizes_up_to(most.total()), most, most)
        return found or [(first, ())]

    def _most_on(self, ask: SizeRequest, kind: NodeKind) -> int:
        """Return the maximum number of units of a job on nodes of one kind."""
        on_one = kind.cores // ask.unit_cores
        if ask.gpus:
            on_one = min(on_one, kind.gpus // ask.gpus)
        count = self.count if self.alike else self._count[kind]
        if ask.spread is Spread.TOGETHER:
            return on_one
        return count * (min(on_one, 1) if ask.spread is Spread.APART else on_one)

    def present(self, ask: SizeRequest, on: Iterable[NodeId], sizes_up_to: SizesUpTo) -> Offer:
        """Return the current nodes of a running job; ``on`` names a node once for each unit."""
        if self.alike:
            return self._places[self.kinds[0]], sizes_up_to(self.largest_size(ask))
        under = Counter(self._kind_of[node_id] for node_id in on if node_id in self._kind_of)
        kinds = tuple(under) or self.kinds[:1]
        if len(kinds) > 1:
            return NodeAlternative(kinds=kinds, nodes=tuple(under.values())), sizes_up_to(
                self.count
            )
        return self._places[kinds[0]], sizes_up_to(self._most_of(ask, kinds[0]))

    def _most_of(self, ask: SizeRequest, kind: NodeKind) -> int:
        """Return the maximum size on nodes of one kind."""
        if ask.unit is SizeUnit.UNITS:
            return self._most_on(ask, kind)
        return self._count[kind] if ask.unit is SizeUnit.NODES else kind.cores

    def _pure(self, ask: SizeRequest, sizes_up_to: SizesUpTo) -> list[Offer]:
        able = [kind for kind in self.kinds if kind.gpus >= ask.gpus]
        offers = [(kind, sizes_up_to(self._most_of(ask, kind))) for kind in able]
        return [(self._places[kind], sizes) for kind, sizes in offers if sizes]

    def _with_gpus(self, ask: SizeRequest, nodes: Counter[NodeKind]) -> Counter[NodeKind]:
        """Return the kinds with as many GPUs as a job requests."""
        if not ask.gpus:
            return nodes
        return Counter({kind: count for kind, count in nodes.items() if kind.gpus >= ask.gpus})

    def _mixed(
        self, sizes: Sizes, empty: Counter[NodeKind], every: Counter[NodeKind]
    ) -> list[Offer]:
        """Return mixed alternatives for every size beyond the empty nodes of one kind.

        Each takes one kind and fills it up with the others, in order. If fewer nodes are empty than
        needed, all nodes count, because a job may be too large at present. For units, the number is
        the capacity of all nodes of a kind.
        """
        found: dict[Offer, None] = {}
        for size in sizes:
            there = empty if empty.total() >= size else every
            for first in self.kinds:
                if 0 < there[first] < size:
                    found[_filled_up(first, self.kinds, there, size), (size,)] = None
        return list(found)


def _filled_up(
    first: NodeKind, kinds: tuple[NodeKind, ...], there: Counter[NodeKind], size: int
) -> NodeAlternative:
    """Return all nodes of one kind, plus as many others as needed."""
    parts: Counter[NodeKind] = Counter()
    for kind in (first, *(kind for kind in kinds if kind != first)):
        parts[kind] = min(there[kind], size - parts.total())
    taken = [(kind, parts[kind]) for kind in kinds if parts[kind]]
    return NodeAlternative(kinds=tuple(kind for kind, _ in taken), nodes=tuple(n for _, n in taken))


class DramOffers:
    """DRAM levels on named nodes of each kind, computed at first use.

    In a pool all nodes have the same default DRAM cap, and the levels are given. On named nodes
    both follow from the nodes of a kind. Every node of the kind must be able to hold a level, and
    the charge is the highest of these nodes. A requested level is offered unchanged; each node
    clips it to its range.
    """

    def __init__(self, nodes: Iterable[NodeView], settings: ParmSettings) -> None:
        self._nodes = tuple(nodes)
        self._settings = settings
        self._specs: dict[NodeKind, list[NodeSpec]] | None = None
        self._found: dict[tuple[NodeKind, int], DramLevels | None] = {}

    def of(self, kind: NodeKind, asked_uw: int) -> DramLevels | None:
        """Return the levels of a job on nodes of a kind; None keeps DRAM at its default caps."""
        if not asked_uw and not self._settings.dram_levels:
            return None
        key = kind, asked_uw
        if key not in self._found:
            found = self._asked(kind, asked_uw) if asked_uw else self._chosen(kind)
            self._found[key] = found
        return self._found[key]

    def _asked(self, kind: NodeKind, asked_uw: int) -> DramLevels | None:
        model = self._settings.dram_model
        dram_cap_uw, specs = self._known(kind)
        able = [spec for spec in specs if dram_range_uw(spec)[1]]
        if not able:
            return None
        beyond_uw = max(dram_beyond_uw(spec, asked_uw, dram_cap_uw) for spec in able)
        if len(able) < len(specs):
            beyond_uw = max(beyond_uw, 0)
        standing_uw = asked_uw - beyond_uw
        return DramLevels(caps_uw=(asked_uw,), standing_uw=standing_uw, model=model)

    def _chosen(self, kind: NodeKind) -> DramLevels | None:
        settings, model = self._settings, self._settings.dram_model
        dram_cap_uw, specs = self._known(kind)
        if not specs:
            return None
        ranges = [dram_range_uw(spec) for spec in specs]
        least_uw, most_uw = max(low for low, _ in ranges), min(high for _, high in ranges)
        levels_uw = settings.dram_levels_uw(least_uw, most_uw) if least_uw < most_uw else ()
        if not levels_uw:
            return None
        standing_uw = min(dram_standing_uw(spec, dram_cap_uw) for spec in specs)
        return DramLevels(caps_uw=levels_uw, standing_uw=standing_uw, model=model)

    def _known(self, kind: NodeKind) -> tuple[int, list[NodeSpec]]:
        if self._specs is None:
            self._specs = {}
            for node in self._nodes:
                self._specs.setdefault(node.spec.kind, []).append(node.spec)
        dram_cap_uw = self._nodes[0].dram_cap_uw if self._nodes else 0
        return dram_cap_uw, self._specs.get(kind, [])

    def like(self, other: DramOffers) -> bool:
        """Return whether both give the same answers to all requests so far."""
        return all(self.of(*key) == found for key, found in other._found.items())
