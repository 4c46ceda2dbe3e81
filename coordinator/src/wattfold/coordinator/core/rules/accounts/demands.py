"""The demand of a job, which counts for the limits of its user and its account.

A job counts with its maximum size, and with the power of this size at the cap that it requested, or
else at the maximum of the nodes. So no policy has to know a limit:
whatever size and cap it chooses, and however it changes them later, the limits hold.
"""

from __future__ import annotations

from wattfold.coordinator.core.model.account import Demand
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node, NodeSpec
from wattfold.coordinator.core.power.charge import cores_uw
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit


def demand_of(state: State, spec: JobSpec) -> Demand:
    """Return the demand of a submission on the known nodes that it may use.

    If the nodes differ, it is the largest demand of all of them.
    """
    seen: set[tuple[int, int, int]] = set()
    cores = power_uw = 0
    for node in state.nodes.values():
        if node.spec is None or not _may_use(node, spec):
            continue
        kind = id(node.spec.kind), len(node.spec.cpus), len(node.spec.gpus)
        if kind not in seen:
            seen.add(kind)
            held, charged_uw = _on(node.spec, spec, state.settings.dram_cap_uw)
            cores, power_uw = max(cores, held), max(power_uw, charged_uw)
    return Demand(1, cores, power_uw)


def _may_use(node: Node, spec: JobSpec) -> bool:
    named = not spec.among or node.node_id in spec.among
    return named and {*spec.features} <= {*node.all_features}


def _on(node: NodeSpec, spec: JobSpec, dram_cap_uw: int) -> tuple[int, int]:
    """Return the closed cores and the maximum power of a job on nodes of one kind."""
    counts, cores = {
        SizeUnit.NODES: (spec.size_max, len(node.cpus)),
        SizeUnit.UNITS: (spec.size_max, spec.unit_cores),
        SizeUnit.CORES: (1, spec.size_max),
    }[spec.unit]
    closed = len(node.cpus) if spec.alone and spec.unit is SizeUnit.CORES else cores
    level_uw = spec.cap_uw or node.kind.most_uw
    each_uw = cores_uw(node, cores, level_uw, spec.levels, dram_cap_uw, spec.gpus)
    return counts * closed, counts * each_uw
