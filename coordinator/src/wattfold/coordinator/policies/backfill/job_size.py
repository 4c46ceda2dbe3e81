"""The size that a job gets at a level, on this machine and within its budget."""

from __future__ import annotations

from wattfold.coordinator.core.model.jobs.job_units import least_uw, units_within
from wattfold.coordinator.core.model.plan import JobView, NodeView
from wattfold.coordinator.core.power.charge import cores_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.port import Site
from wattfold.coordinator.policies.resources.stock import could_hold, largest_size


def size_of(view: JobView, site: Site, size_choice: str, cap_uw: int) -> int:
    """Return the size that a job gets at a level, or 0 if no size is possible.

    With ``size_choice`` "max" this is the largest size within the machine and its budget, otherwise
    the minimum size.
    """
    most, least = largest_size(view.spec, site.nodes), view.spec.min_size
    size = least if size_choice == "min" else min(view.max_size, most)
    if not least <= size <= most:
        return 0
    while size > least and not _fed(view, site, size, cap_uw):
        size -= 1
    return size


def _fed(view: JobView, site: Site, size: int, cap_uw: int) -> bool:
    """Return whether the whole budget suffices for this size on the most efficient nodes."""

    def takes_uw(node: NodeView, cores: int) -> int:
        gpus = view.spec.amounts_on(cores).gpus
        return cores_uw(node.spec, cores, cap_uw, view.spec.levels, node.dram_cap_uw, gpus)

    if view.spec.unit is SizeUnit.NODES:
        each = sorted(takes_uw(node, len(node.spec.cpus)) for node in site.nodes)
        return sum(each[:size]) <= site.spendable_uw
    if view.spec.unit is SizeUnit.UNITS:
        nodes = [node for node in site.nodes if could_hold(node, view.spec)]
        holds = [units_within(view.spec, node.spec.capacity) for node in nodes]
        least = least_uw(view.spec, size, holds, lambda at, cores: takes_uw(nodes[at], cores))
        return least is not None and least <= site.spendable_uw
    large = [node for node in site.nodes if len(node.spec.cpus) >= size]
    return min(takes_uw(node, size) for node in large) <= site.spendable_uw
