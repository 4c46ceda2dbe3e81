"""The jobs of a snapshot as PARM sees them: their options, weights and estimates.

A snapshot names every node; a round needs to know only how many kinds there are. `Nodes` is what
is gathered from all of them, once a round; nothing done per job or per option looks at them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.job import JobSpec, SizeUnit
from wattfold.coordinator.core.node import NodeSpec
from wattfold.coordinator.core.plan import JobView, NodeView
from wattfold.coordinator.policies.estimates import Estimate
from wattfold.coordinator.policies.parm_options import Charge, NodeKind, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job: size, cap level, what it costs and what it is worth."""

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Menu:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    table: Options
    weight: float
    estimate: Estimate

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
    )


class Nodes:
    """What a round needs to know of its nodes. There is at least one."""

    def __init__(self, nodes: tuple[NodeView, ...]) -> None:
        self.views = nodes
        self.count = len(nodes)
        self._kind_of = {n.spec.node_id: kind_of(n.spec) for n in nodes}
        self._kinds = tuple(sorted(set(self._kind_of.values())))
        self.low_w = w_from_uw(max(kind.floor_uw for kind in self._kinds))
        self.high_w = w_from_uw(min(n.spec.package_max_uw for n in nodes))
        self._cores_most = max(kind.cores for kind in self._kinds)

    def largest_size(self, spec: JobSpec) -> int:
        """The most a job of this kind could ever get."""
        return self.count if spec.unit is SizeUnit.NODES else self._cores_most

    def charge(self, view: JobView) -> Charge:
        """How a job is charged: by the nodes it is on, or by any it may come to."""
        kinds = tuple(sorted(set(self._kinds_under(view)))) or self._kinds
        return Charge(kinds=kinds, unit=view.spec.unit, exclusive=view.spec.exclusive)

    def _kinds_under(self, view: JobView) -> Iterator[NodeKind]:
        if view.current is None:
            return
        for share in view.current.shares:
            if share.node_id in self._kind_of and share.cpus:
                yield self._kind_of[NodeId(share.node_id)]


def kind_of(spec: NodeSpec) -> NodeKind:
    """What a node has in common with others like it."""
    return NodeKind(cores=len(spec.cpus), floor_uw=spec.package_floor_uw)
