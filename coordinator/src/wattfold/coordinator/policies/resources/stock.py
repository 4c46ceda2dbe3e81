"""Free memory and GPUs of nodes, and node features, as policies take and release them.

Nothing is computed before the first job that requests any of them, so other rounds pay nothing. The
choice among the GPUs of a node does not matter: a job gets the first free GPUs in the order of the
agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.amounts import Amounts, gpus_text, memory_text
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.job_units import size_text, units_over, units_within
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.models.pass_model import SizeUnit

NAMED_MAX = 3
"""Maximum number of nodes named in a reason."""


class _Alike(NamedTuple):
    """Nodes with equal features, capacity and free resources. All their cores count as free."""

    features: tuple[str, ...]
    capacity: Amounts
    free: Amounts
    number: int


class Stock:
    """Free resources of the nodes besides cores."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._views: dict[NodeId, NodeView] = {}
        self._bytes: dict[NodeId, int] = {}
        self._gpus: dict[NodeId, frozenset[str]] = {}
        self._free: dict[NodeId, Amounts] = {}
        """Free resources by node, cached until the node changes."""
        self._counted: list[_Alike] | None = None
        """None: must be counted again."""

    def copy(self) -> Stock:
        """Return an independent copy."""
        twin = Stock(self._nodes)
        twin._views = self._views
        twin._bytes, twin._gpus, twin._free = dict(self._bytes), dict(self._gpus), dict(self._free)
        return twin

    def take(self, share: Share) -> None:
        """Take the memory and the GPUs of a share."""
        self._change(share.node_id)
        if share.memory_bytes:
            self._bytes[share.node_id] = self._bytes.get(share.node_id, 0) + share.memory_bytes
        if share.gpus:
            self._gpus[share.node_id] = self._taken_gpus(share.node_id) | {*share.gpus}

    def give_back(self, share: Share) -> None:
        """Undo `take`."""
        self._change(share.node_id)
        if share.memory_bytes:
            self._bytes[share.node_id] = self._bytes.get(share.node_id, 0) - share.memory_bytes
        if share.gpus:
            self._gpus[share.node_id] = self._taken_gpus(share.node_id) - {*share.gpus}

    def holds(self, node_id: NodeId, spec: JobSpec) -> bool:
        """Return whether a node suits a job and has free resources for it or one unit of it."""
        return suits(self._view(node_id), spec) and spec.unit_amounts <= self.free(node_id)

    def free(self, node_id: NodeId) -> Amounts:
        """Return the free memory and GPUs of a node; cores are not counted."""
        known = self._free.get(node_id)
        if known is None:
            view = self._view(node_id)
            left_bytes = view.spec.memory_bytes - view.blocked_bytes - self._bytes.get(node_id, 0)
            known = Amounts(memory_bytes=max(left_bytes, 0), gpus=len(self.free_gpus(node_id)))
            self._free[node_id] = known
        return known

    def free_gpus(self, node_id: NodeId) -> tuple[str, ...]:
        """Return the free GPUs of a node."""
        view = self._view(node_id)
        taken = self._taken_gpus(node_id).union(view.blocked_gpus)
        return tuple(gpu for gpu in view.spec.gpus if gpu not in taken)

    def nodes_for(self, spec: JobSpec) -> list[NodeView]:
        """Return the nodes for which `holds` is true, in order."""
        return [node for node in self._nodes if self.holds(node.spec.node_id, spec)]

    def missing(self, spec: JobSpec) -> str:
        """Return what a job lacks besides cores and power, for users; empty if it lacks nothing."""
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
        """Return the number of nodes that could hold an unshared job, or one unit of it."""
        return sum(one.number for one in self._suiting(spec) if spec.unit_amounts <= one.capacity)

    def _count(self, spec: JobSpec) -> int:
        """Return the number of nodes for which `holds` is true."""
        return sum(one.number for one in self._suiting(spec) if spec.unit_amounts <= one.free)

    def _suiting(self, spec: JobSpec) -> list[_Alike]:
        """Return the nodes with the requested features, among the nodes that the job names."""
        alike = self._count_alike(spec.among) if spec.among else self._alike()
        return [one for one in alike if {*spec.features} <= {*one.features}]

    def _missing_units(self, spec: JobSpec) -> str:
        """Return `missing` for a job of units, which may share nodes."""
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
        return f"needs {asked}, free for {now or 'none'}"

    def _alike(self) -> list[_Alike]:
        """Return all nodes, grouped by equal free resources."""
        if self._counted is None:
            self._counted = self._count_alike(())
        return self._counted

    def _count_alike(self, among: Sequence[NodeId]) -> list[_Alike]:
        """Group some nodes by equal free resources; an empty ``among`` means all nodes."""
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
    """Return the number of units that fit, given pairs of free resources and number of nodes."""
    each = (repeat(units_within(spec, free), count) for free, count in parts)
    return units_over(spec, chain.from_iterable(each))


def could_hold(node: NodeView, spec: JobSpec) -> bool:
    """Return whether an empty node has all that a job requests besides cores.

    For a job of units, whether the node has it for one unit.
    """
    return suits(node, spec) and spec.unit_amounts <= node.spec.capacity


def suits(node: NodeView, spec: JobSpec) -> bool:
    """Return whether a node has the requested features and is permitted by the job's node list."""
    named = not spec.among or node.spec.node_id in spec.among
    return named and all(name in node.features for name in spec.features)


def wanted_text(spec: JobSpec) -> str:
    """Return the request of a job per node or unit besides cores, for users."""
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


def _some(nodes: Sequence[NodeId], describe: Callable[[NodeId], str]) -> str:
    """Return the descriptions of the first `NAMED_MAX` nodes."""
    more = len(nodes) - NAMED_MAX
    named = ", ".join(f"{describe(node)} on {node}" for node in nodes[:NAMED_MAX])
    return named + (f" and {more} more nodes" if more > 0 else "")


def largest_size(spec: JobSpec, nodes: Sequence[NodeView]) -> int:
    """Return the maximum size that a job can ever get on these nodes."""
    if spec.requests:
        nodes = [node for node in nodes if could_hold(node, spec)]
    if spec.unit is SizeUnit.NODES:
        return len(nodes)
    if spec.unit is SizeUnit.UNITS:
        return units_over(spec, (units_within(spec, node.spec.capacity) for node in nodes))
    return max((len(node.spec.cpus) for node in nodes), default=0)
