"""The jobs of a snapshot as PARM sees them: their options, weights and estimates.

A snapshot names every node; a round needs to know only how many kinds there are. `Nodes` is what
is gathered from all of them, once a round; nothing done per job or per option looks at them again.

Where nodes are unlike, a job that waits has alternatives (`Place`): nodes of one kind, whichever,
at levels that they can take; or, for more nodes than one kind has empty, one kind filled up from
the others. Nodes of a running job stand. With one kind there is one alternative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import JobSpec, SizeUnit
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView, Snapshot
from wattfold.coordinator.policies.estimates import Estimate
from wattfold.coordinator.policies.parm_options import Charge, Options

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job: size, cap level, what it costs and what it is worth.

    ``place`` is the index of its alternative.
    """

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An alternative: nodes of these kinds. ``nodes`` as in `Charge`."""

    kinds: tuple[NodeKind, ...]
    nodes: tuple[int, ...] = ()

    def charge(self, spec: JobSpec) -> Charge:
        """How a job is charged there."""
        return Charge(kinds=self.kinds, unit=spec.unit, exclusive=spec.exclusive, nodes=self.nodes)


Offer = tuple[Place, Sizes]
"""An alternative, and the sizes a job may have there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Menu:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    table: Options
    weight: float
    estimate: Estimate
    places: tuple[Place, ...]

    @property
    def options(self) -> tuple[Option, ...]:
        """All of them, one by one: for people."""
        return tuple(option_at(self.table, index) for index in range(len(self.table)))


def option_at(table: Options, index: int) -> Option:
    """One row of a table."""
    return Option(
        size=int(table.size[index]),
        cap_uw=int(table.cap_uw[index]),
        units=int(table.units[index]),
        power_uw=int(table.power_uw[index]),
        speedup=float(table.speedup[index]),
        total_s=float(table.total_s[index]),
        place=int(table.place[index]),
    )


class Nodes:
    """What a round needs to know of its nodes. There is at least one."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = snapshot.nodes
        self.count = len(nodes)
        # Equal kinds are one object in nearly every case: looked at by identity first.
        some = {id(node.spec.kind): node.spec.kind for node in nodes}
        self.kinds: tuple[NodeKind, ...] = tuple(dict.fromkeys(some.values()))
        self.alike = len(self.kinds) == 1
        self._cores_most = max(kind.cores for kind in self.kinds)
        self._places = {kind: Place(kinds=(kind,)) for kind in self.kinds}
        self._kind_of: dict[NodeId, NodeKind] = {}
        self._count: Counter[NodeKind] = Counter()
        self._empty: Counter[NodeKind] = Counter()
        if not self.alike:
            self._tell_apart(snapshot)

    def _tell_apart(self, snapshot: Snapshot) -> None:
        self._kind_of = {node.spec.node_id: node.spec.kind for node in snapshot.nodes}
        self._count = Counter(self._kind_of.values())
        currents = [view.current for view in snapshot.jobs if view.current is not None]
        used = {share.node_id for current in currents for share in current.shares}
        self._empty = Counter(
            node.spec.kind
            for node in snapshot.nodes
            if node.spec.node_id not in used and not node.blocked
        )

    def largest_size(self, spec: JobSpec) -> int:
        """The most a job of this kind could ever get."""
        return self.count if spec.unit is SizeUnit.NODES else self._cores_most

    def offers(self, view: JobView, sizes_up_to: Callable[[int], Sizes]) -> list[Offer]:
        """The alternatives of a job, at least one. ``sizes_up_to`` offers sizes up to a most."""
        first = self._places[self.kinds[0]]
        if self.alike:
            return [(first, sizes_up_to(self.largest_size(view.spec)))]
        if view.current is not None:
            return [self._present(view, sizes_up_to)]
        found = self._pure(view.spec, sizes_up_to)
        if view.spec.unit is SizeUnit.NODES:
            found += self._mixed(sizes_up_to(self.count))
        return found or [(first, ())]

    def _present(self, view: JobView, sizes_up_to: Callable[[int], Sizes]) -> Offer:
        """The nodes a running job is on."""
        assert view.current is not None
        under = Counter(
            self._kind_of[share.node_id]
            for share in view.current.shares
            if share.node_id in self._kind_of
        )
        kinds = tuple(under) or self.kinds[:1]
        if view.spec.unit is SizeUnit.NODES:
            nodes = tuple(under.values()) if len(kinds) > 1 else ()
            return Place(kinds=kinds, nodes=nodes), sizes_up_to(self.count)
        return self._places[kinds[0]], sizes_up_to(kinds[0].cores)

    def _pure(self, spec: JobSpec, sizes_up_to: Callable[[int], Sizes]) -> list[Offer]:
        whole = spec.unit is SizeUnit.NODES
        offers = [(k, sizes_up_to(self._count[k] if whole else k.cores)) for k in self.kinds]
        return [(self._places[kind], sizes) for kind, sizes in offers if sizes]

    def _mixed(self, sizes: Sizes) -> list[Offer]:
        """For every size beyond the empty nodes of one kind: these, and the others in turn.

        Where fewer are empty than that, all nodes count: a job may be too large for now.
        """
        found: dict[Offer, None] = {}
        for size in sizes:
            there = self._empty if self._empty.total() >= size else self._count
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
