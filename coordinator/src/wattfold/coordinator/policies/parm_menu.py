"""Which nodes there are for a job as PARM sees them: kinds and counts, and the sizes on each.

A site may name every node; a decision needs to know only how many kinds there are. `Nodes` is what
is gathered from all of them; nothing done per job or per option looks at them again.

Where nodes are unlike, a job that waits has alternatives (`Place`): nodes of one kind, whichever,
at levels that they can take; or, for more nodes than one kind has empty, one kind filled up from
the others. A running job stays on nodes of its kind, or as it is on several. With one kind there is
one alternative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.parm_options import Charge
from wattfold.coordinator.policies.scheduler import Ask, Site

Sizes = tuple[int, ...]
SizesUpTo = Callable[[int], Sizes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An alternative: nodes of these kinds. ``nodes`` as in `Charge`."""

    kinds: tuple[NodeKind, ...]
    nodes: tuple[int, ...] = ()

    def charge(self, ask: Ask) -> Charge:
        """How a job is charged there."""
        return Charge(
            kinds=self.kinds,
            unit=ask.unit,
            exclusive=ask.exclusive,
            nodes=self.nodes,
            unit_cores=ask.unit_cores,
            spread=ask.spread,
            gpus=ask.gpus,
        )


Offer = tuple[Place, Sizes]
"""An alternative, and the sizes a job may have there."""


class Nodes:
    """What a decision needs to know of the nodes of a site. There is at least one."""

    def __init__(self, site: Site) -> None:
        self.count = site.count
        # Equal kinds are one object in nearly every case: looked at by identity first.
        some = {id(node.spec.kind): node.spec.kind for node in site.nodes}
        kinds = (site.kind,) if site.kind else tuple(dict.fromkeys(some.values()))
        self.kinds: tuple[NodeKind, ...] = kinds
        self.alike = len(kinds) == 1
        self._nodes = site.nodes
        self._cores_most = max(kind.cores for kind in kinds)
        self._places = {kind: Place(kinds=(kind,)) for kind in kinds}
        self._kind_of: dict[NodeId, NodeKind] = {}
        self._empty: Counter[NodeKind] = Counter()
        if not self.alike:
            self._kind_of = {node.spec.node_id: node.spec.kind for node in site.nodes}
        self._count = Counter(self._kind_of.values())

    def like(self, other: Nodes | None) -> bool:
        """Whether jobs have the same options on these, but for nodes that jobs are on."""
        return (
            other is not None
            and self.kinds == other.kinds
            and self.count == other.count
            and self._count == other._count
        )

    def occupy(self, used: Collection[NodeId]) -> Counter[NodeKind]:
        """Which nodes jobs are on, of unlike ones. Answers how many of each kind are empty."""
        self._empty = Counter(
            node.spec.kind
            for node in self._nodes
            if node.spec.node_id not in used and not node.blocked
        )
        return self._empty

    def largest_size(self, ask: Ask) -> int:
        """The most a job of this kind could ever get."""
        if ask.unit is SizeUnit.NODES:
            return self.count
        if ask.unit is SizeUnit.CORES:
            return self._cores_most
        each = [self._most_on(ask, kind) for kind in self.kinds]
        return max(each) if ask.spread is Spread.TOGETHER else sum(each)

    def offers(self, ask: Ask, sizes_up_to: SizesUpTo) -> list[Offer]:
        """The alternatives of a waiting job, at least one."""
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

    def _most_on(self, ask: Ask, kind: NodeKind) -> int:
        """The most units of a job on nodes of one kind."""
        on_one = kind.cores // ask.unit_cores
        if ask.gpus:
            on_one = min(on_one, kind.gpus // ask.gpus)
        count = self.count if self.alike else self._count[kind]
        if ask.spread is Spread.TOGETHER:
            return on_one
        return count * (min(on_one, 1) if ask.spread is Spread.APART else on_one)

    def present(self, ask: Ask, on: Iterable[NodeId], sizes_up_to: SizesUpTo) -> Offer:
        """The nodes a running job is on, each named once for every unit there."""
        if self.alike:
            return self._places[self.kinds[0]], sizes_up_to(self.largest_size(ask))
        under = Counter(self._kind_of[node_id] for node_id in on if node_id in self._kind_of)
        kinds = tuple(under) or self.kinds[:1]
        if len(kinds) > 1:
            return Place(kinds=kinds, nodes=tuple(under.values())), sizes_up_to(self.count)
        return self._places[kinds[0]], sizes_up_to(self._most_of(ask, kinds[0]))

    def _most_of(self, ask: Ask, kind: NodeKind) -> int:
        """The greatest size on nodes of one kind."""
        if ask.unit is SizeUnit.UNITS:
            return self._most_on(ask, kind)
        return self._count[kind] if ask.unit is SizeUnit.NODES else kind.cores

    def _pure(self, ask: Ask, sizes_up_to: SizesUpTo) -> list[Offer]:
        able = [kind for kind in self.kinds if kind.gpus >= ask.gpus]
        offers = [(kind, sizes_up_to(self._most_of(ask, kind))) for kind in able]
        return [(self._places[kind], sizes) for kind, sizes in offers if sizes]

    def _with_gpus(self, ask: Ask, nodes: Counter[NodeKind]) -> Counter[NodeKind]:
        """Those of the kinds that have as many GPUs as a job asks for."""
        if not ask.gpus:
            return nodes
        return Counter({kind: count for kind, count in nodes.items() if kind.gpus >= ask.gpus})

    def _mixed(
        self, sizes: Sizes, empty: Counter[NodeKind], every: Counter[NodeKind]
    ) -> list[Offer]:
        """For every size beyond the empty nodes of one kind: these, and the others in turn.

        Where fewer are empty than that, all nodes count: a job may be too large for now. Of units,
        as many as all nodes of a kind hold.
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
) -> Place:
    """All nodes of one kind, and as many of the others as are missing."""
    parts: Counter[NodeKind] = Counter()
    for kind in (first, *(kind for kind in kinds if kind != first)):
        parts[kind] = min(there[kind], size - parts.total())
    taken = [(kind, parts[kind]) for kind in kinds if parts[kind]]
    return Place(kinds=tuple(kind for kind, _ in taken), nodes=tuple(n for _, n in taken))
