"""Memory and GPUs of nodes, and their features, as policies take and give them back.

Nothing is looked at before the first job that asks for any of it: a round without such jobs pays
for none. Which GPUs of a node a job gets is no matter; the first free ones, in the order in which
the agent names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.amounts import Amounts, gpus_text, memory_text
from wattfold.coordinator.core.job import JobSpec, Share, SizeUnit
from wattfold.coordinator.core.job_units import size_text, units_over, units_within
from wattfold.coordinator.core.plan import NodeView
from wattfold.coordinator.core.spread import Spread

NAMED_MAX = 3
"""Nodes that a sentence names."""


class _Alike(NamedTuple):
    """Nodes of which the same is left; all their cores count as free."""

    features: tuple[str, ...]
    capacity: Amounts
    free: Amounts
    number: int


class Stock:
    """What is left of the nodes beside cores."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._views: dict[NodeId, NodeView] = {}
        self._bytes: dict[NodeId, int] = {}
        self._gpus: dict[NodeId, frozenset[str]] = {}
        self._free: dict[NodeId, Amounts] = {}
        """What is left of nodes that were looked at since anything of them changed."""
        self._counted: list[_Alike] | None = None
        """None: to be counted anew."""

    def copy(self) -> Stock:
        """An independent copy."""
        twin = Stock(self._nodes)
        twin._views = self._views
        twin._bytes, twin._gpus, twin._free = dict(self._bytes), dict(self._gpus), dict(self._free)
        return twin

    def take(self, share: Share) -> None:
        """Gives the memory and the GPUs of a share away."""
        self._change(share.node_id)
        if share.memory_bytes:
            self._bytes[share.node_id] = self._bytes.get(share.node_id, 0) + share.memory_bytes
        if share.gpus:
            self._gpus[share.node_id] = self._taken_gpus(share.node_id) | {*share.gpus}

    def give_back(self, share: Share) -> None:
        """Undoes `take`."""
        self._change(share.node_id)
        if share.memory_bytes:
            self._bytes[share.node_id] = self._bytes.get(share.node_id, 0) - share.memory_bytes
        if share.gpus:
            self._gpus[share.node_id] = self._taken_gpus(share.node_id) - {*share.gpus}

    def holds(self, node_id: NodeId, spec: JobSpec) -> bool:
        """Whether a node will do for a job and has what it asks for left, of units for one."""
        return suits(self._view(node_id), spec) and spec.unit_amounts <= self.free(node_id)

    def free(self, node_id: NodeId) -> Amounts:
        """What is left of a node; its cores are not counted here."""
        known = self._free.get(node_id)
        if known is None:
            view = self._view(node_id)
            left_bytes = view.spec.memory_bytes - view.blocked_bytes - self._bytes.get(node_id, 0)
            known = Amounts(memory_bytes=max(left_bytes, 0), gpus=len(self.free_gpus(node_id)))
            self._free[node_id] = known
        return known

    def free_gpus(self, node_id: NodeId) -> tuple[str, ...]:
        """GPUs of a node that nobody has."""
        view = self._view(node_id)
        taken = self._taken_gpus(node_id).union(view.blocked_gpus)
        return tuple(gpu for gpu in view.spec.gpus if gpu not in taken)

    def nodes_for(self, spec: JobSpec) -> list[NodeView]:
        """Nodes that have what a job asks for beside cores left, in order."""
        return [node for node in self._nodes if self.holds(node.spec.node_id, spec)]

    def missing(self, spec: JobSpec) -> str:
        """What a job lacks beside cores and power, for people; empty where enough nodes have it."""
        if spec.unit is SizeUnit.UNITS:
            return self._missing_units(spec)
        needed = spec.size_min if spec.unit is SizeUnit.NODES else 1
        if not spec.requests or self._count(spec) >= needed:
            return ""
        able = self.able(spec)
        if able < needed:
            return f"requests {wanted_text(spec)}, but {_too_few(able)} can provide it"
        names = [node.spec.node_id for node in self._nodes if could_hold(node, spec)]
        short = [name for name in names if self.free(name).memory_bytes < spec.memory_bytes]
        on = "a node" if needed == 1 else f"each of {needed} nodes"
        if able - len(short) < needed:
            told = _some(short, lambda name: f"{memory_text(self.free(name).memory_bytes)} free")
            return f"needs {memory_text(spec.memory_bytes)} of memory on {on}: {told}"
        told = _some(names, lambda name: f"{self.free(name).gpus} free")
        also = (
            f" in addition to {memory_text(spec.memory_bytes)} of memory"
            if spec.memory_bytes
            else ""
        )
        return f"needs {gpus_text(spec.gpus)} on {on}{also}: {told}"

    def able(self, spec: JobSpec) -> int:
        """How many nodes could hold a job that has them alone, or a unit of it."""
        return sum(one.number for one in self._suiting(spec) if spec.unit_amounts <= one.capacity)

    def _count(self, spec: JobSpec) -> int:
        """How many nodes `holds` is true of."""
        return sum(one.number for one in self._suiting(spec) if spec.unit_amounts <= one.free)

    def _suiting(self, spec: JobSpec) -> list[_Alike]:
        """The nodes with the features a job asks for, of those that it names."""
        alike = self._count_alike(spec.among) if spec.among else self._alike()
        return [one for one in alike if {*spec.features} <= {*one.features}]

    def _missing_units(self, spec: JobSpec) -> str:
        """`missing` of a job of units, which may share nodes."""
        if not spec.requests:
            return ""
        able = self._suiting(spec)
        now = _over(spec, ((one.free, one.number) for one in able))
        most = _over(spec, ((one.capacity, one.number) for one in able))
        asked = f"{size_text(spec, spec.size_min)} with {wanted_text(spec)}{_where(spec)}"
        if most < spec.size_min:
            return f"requests {asked}; the reachable nodes can hold {most}"
        if now >= spec.size_min:
            return ""
        return f"needs {asked}; the free memory and GPUs are enough for {now}"

    def _alike(self) -> list[_Alike]:
        """All nodes, those that have the same free counted together."""
        if self._counted is None:
            self._counted = self._count_alike(())
        return self._counted

    def _count_alike(self, among: Sequence[NodeId]) -> list[_Alike]:
        """The same of some nodes; none named: of all."""
        found: dict[tuple[tuple[str, ...], Amounts, Amounts], int] = {}
        for node in self._nodes:
            if among and node.spec.node_id not in among:
                continue
            capacity = node.spec.capacity
            free = self.free(node.spec.node_id) + Amounts(cores=capacity.cores)
            key = node.features, capacity, free
            found[key] = found.get(key, 0) + 1
        return [_Alike(*key, count) for key, count in found.items()]

    def _change(self, node_id: NodeId) -> None:
        self._free.pop(node_id, None)
        self._counted = None

    def _taken_gpus(self, node_id: NodeId) -> frozenset[str]:
        return self._gpus.get(node_id, frozenset())

    def _view(self, node_id: NodeId) -> NodeView:
        if not self._views:
            self._views.update((node.spec.node_id, node) for node in self._nodes)
        return self._views[node_id]


def _over(spec: JobSpec, parts: Iterable[tuple[Amounts, int]]) -> int:
    """How many units of a job nodes hold of which so much is free; so many are alike."""
    each = (repeat(units_within(spec, free), count) for free, count in parts)
    return units_over(spec, chain.from_iterable(each))


def could_hold(node: NodeView, spec: JobSpec) -> bool:
    """Whether a node has all that a job asks for beside cores, when nobody else is there.

    Of a job of units, whether it has that for one of them.
    """
    return suits(node, spec) and spec.unit_amounts <= node.spec.capacity


def suits(node: NodeView, spec: JobSpec) -> bool:
    """Whether a node has the features a job asks for, and is one that it names, if it names any."""
    named = not spec.among or node.spec.node_id in spec.among
    return named and all(name in node.features for name in spec.features)


def wanted_text(spec: JobSpec) -> str:
    """What a job asks of a node, or for a unit, beside cores, for people."""
    parts = [f"{memory_text(spec.memory_bytes)} of memory"] if spec.memory_bytes else []
    parts += [gpus_text(spec.gpus)] if spec.gpus else []
    parts += [f"the features {', '.join(spec.features)}"] if spec.features else []
    parts += [f"one of the nodes {', '.join(spec.among)}"] if spec.among else []
    return " and ".join(parts)


def _where(spec: JobSpec) -> str:
    each = " each" if spec.size_min > 1 else ""
    if spec.size_min == 1 or spec.spread is Spread.ANY:
        return each
    return each + (" on one node" if spec.spread is Spread.TOGETHER else " on separate nodes")


def _too_few(count: int) -> str:
    return "no reachable node" if not count else f"only {count} reachable node{'s' * (count != 1)}"


def _some(nodes: Sequence[NodeId], told: Callable[[NodeId], str]) -> str:
    """What is told of nodes, of the first ones alone."""
    more = len(nodes) - NAMED_MAX
    named = ", ".join(f"{told(node)} on {node}" for node in nodes[:NAMED_MAX])
    return named + (f" and {more} more nodes" if more > 0 else "")
