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
    if size > least and view.spec.unit is SizeUnit.NODES:
        return _fed_nodes(view, site, least, size, cap_uw)
    while size > least and not _fed(view, site, size, cap_uw):
        size -= 1
    return size


def size_key(view: JobView, cap_uw: int) -> tuple[object, ...]:
    """Return a key that is equal for jobs with the same `size_of` on one site."""
    spec = view.spec
    asked = spec.unit_amounts, spec.node_filters, spec.levels, spec.unit_cores, spec.spread
    return spec.unit, spec.min_size, view.max_size, cap_uw, *asked


def _fed_nodes(view: JobView, site: Site, least: int, most: int, cap_uw: int) -> int:
    """Return the largest of these numbers of nodes that the whole budget feeds, or ``least``."""
    each = sorted(_takes_uw(view, node, len(node.spec.cpus), cap_uw) for node in site.nodes)
    size, total_uw = most, sum(each[:most])
    while size > least and total_uw > site.spendable_uw:
        size -= 1
        total_uw -= each[size]
    return size


def _takes_uw(view: JobView, node: NodeView, cores: int, cap_uw: int) -> int:
    """Return the power of a job on this many cores of a node, above its floor."""
    gpus = view.spec.amounts_on(cores).gpus
    return cores_uw(node.spec, cores, cap_uw, view.spec.levels, node.dram_cap_uw, gpus)


def _fed(view: JobView, site: Site, size: int, cap_uw: int) -> bool:
    """Return whether the whole budget suffices for these cores or units on the best nodes."""

    def takes_uw(node: NodeView, cores: int) -> int:
        return _takes_uw(view, node, cores, cap_uw)

    if view.spec.unit is SizeUnit.UNITS:
        nodes = [node for node in site.nodes if could_hold(node, view.spec)]
        holds = [units_within(view.spec, node.spec.capacity) for node in nodes]
        least = least_uw(view.spec, size, holds, lambda at, cores: takes_uw(nodes[at], cores))
        return least is not None and least <= site.spendable_uw
    large = [node for node in site.nodes if len(node.spec.cpus) >= size]
    return min(takes_uw(node, size) for node in large) <= site.spendable_uw
