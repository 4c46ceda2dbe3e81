"""Check whether a submission could ever start on the nodes. Refusals give value and limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model.amounts import gpus_text, memory_text
from wattfold.coordinator.core.model.jobs.job_units import size_text, units_over, units_within
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.coordinator.core.power.charge import dram_range_uw, dram_zones, gpu_zones
from wattfold.coordinator.core.rules.nodes.reach import spans_nodes
from wattfold.coordinator.models.pass_model import SizeUnit


def check_possible(
    spec: JobSpec,
    nodes: Iterable[NodeSpec],
    features: Mapping[NodeId, tuple[str, ...]] | None = None,
) -> None:
    """Refuse a job that no known node could ever hold. Without nodes, every job is accepted.

    ``features`` are all features of each node; default: the features that its agent reports. The
    budget does not matter, because a job that needs more power waits for a higher budget.
    """
    known = list(nodes)
    if not known:
        return
    if spec.unit is SizeUnit.NODES:
        if spec.size_min > len(known):
            raise InvalidRequestError(
                f"the job requests {spec.size_min} nodes, but there are only {len(known)}"
            )
    elif spec.unit is SizeUnit.UNITS:
        _check_unit(spec, known)
    else:
        best = max(known, key=lambda node: len(node.cpus))
        if spec.size_min > len(best.cpus):
            raise InvalidRequestError(
                f"the job requests {spec.size_min} cores of one node; the largest node, "
                f"{best.node_id}, has {len(best.cpus)}",
            )
    if spec.requests:
        known = _with_requests(spec, known, features)
    if spec.unit is SizeUnit.UNITS:
        _check_units(spec, known)
    if spans_nodes(spec):
        _check_alike(known)
    if spec.levels:
        _check_levels(spec.levels, known)
    if spec.cap_uw:
        _check_cap(spec.cap_uw, known)


def _with_requests(
    spec: JobSpec, nodes: list[NodeSpec], features: Mapping[NodeId, tuple[str, ...]] | None
) -> list[NodeSpec]:
    """Return the nodes with the requested memory, GPUs and features. Refuses too few nodes."""
    strange = [name for name in spec.among if name not in (features or {n.node_id for n in nodes})]
    if strange:
        raise InvalidRequestError(f"node {strange[0]!r} does not exist")
    able = [node for node in nodes if not spec.among or node.node_id in spec.among]
    if not able:
        return nodes  # Nothing is known yet about the nodes that the job names.
    for name in spec.features:
        able = [
            n for n in able if name in (n.features if features is None else features[n.node_id])
        ]
        if not able:
            gpus = sorted({node.gpu_model for node in nodes if node.gpu_model})
            there = f"; available GPU models: {', '.join(gpus)}" if spec.gpus and gpus else ""
            raise InvalidRequestError(
                f"no node has the feature {name!r}{_beside(spec, name)}{there}"
            )
    wanted = spec.unit_amounts
    on = "for each unit" if spec.unit is SizeUnit.UNITS else "on a node"
    most_bytes = max(node.memory_bytes for node in able)
    if wanted.memory_bytes > most_bytes:
        raise InvalidRequestError(
            f"the job requests {memory_text(wanted.memory_bytes)} of memory {on}; a node "
            f"has at most {memory_text(most_bytes)}"
        )
    most = max(len(node.gpus) for node in able)
    if wanted.gpus > most:
        raise InvalidRequestError(
            f"the job requests {gpus_text(wanted.gpus)} {on}; a node has at most {most}"
        )
    able = [node for node in able if wanted <= node.capacity]
    needed = spec.size_min if spec.unit is SizeUnit.NODES else 1
    if len(able) < needed:
        named = " of its --among list" if spec.among else ""
        raise InvalidRequestError(
            f"the job requests {needed} {'nodes' if needed > 1 else 'node'}{named} with "
            f"{memory_text(wanted.memory_bytes)} of memory and {gpus_text(wanted.gpus)} "
            f"each; there are only {len(able)}"
        )
    if spec.unit is SizeUnit.CORES and spec.size_min > max(len(node.cpus) for node in able):
        raise InvalidRequestError(
            f"the job requests {spec.size_min} cores of one node; the largest node that "
            f"meets its other requests has {max(len(node.cpus) for node in able)}"
        )
    return able


def _check_alike(nodes: list[NodeSpec]) -> None:
    """Refuse nodes with different numbers of cores: a map has equal numbers of PEs on all nodes."""
    cores = sorted({len(node.cpus) for node in nodes})
    if len(cores) > 1:
        raise InvalidRequestError(
            "a processor map needs nodes with equal numbers of cores, but the nodes for "
            f"this job have {cores[0]} to {cores[-1]}; select identical nodes with "
            "--features or --among"
        )


def _check_unit(spec: JobSpec, nodes: list[NodeSpec]) -> None:
    """Check that a unit fits a node by its cores. Other resources are checked later."""
    best = max(nodes, key=lambda node: len(node.cpus))
    if spec.unit_cores > len(best.cpus):
        raise InvalidRequestError(
            f"the job requests units of {spec.unit_cores} cores; the largest node, "
            f"{best.node_id}, has {len(best.cpus)}"
        )


def _check_units(spec: JobSpec, able: list[NodeSpec]) -> None:
    """Check that nodes with the resources of a unit can hold all units of a job, as spread."""
    each = [units_within(spec, node.capacity) for node in able]
    most = units_over(spec, each)
    if most >= spec.size_min:
        return
    asked = f"the job requests {size_text(spec, spec.size_min)}"
    if spec.spread is Spread.TOGETHER:
        raise InvalidRequestError(f"{asked} on one node; the largest node holds {most}")
    if spec.spread is Spread.APART:
        raise InvalidRequestError(f"{asked} on separate nodes; only {most} nodes hold a unit")
    raise InvalidRequestError(f"{asked}; all nodes together hold {most}")


def _beside(spec: JobSpec, name: str) -> str:
    others = [other for other in spec.features if other != name]
    return f" together with {', '.join(others)}" if others else ""


def _check_cap(cap_uw: int, nodes: list[NodeSpec]) -> None:
    low = min(node.package_floor_uw for node in nodes)
    high = max(node.package_max_uw for node in nodes)
    if not low <= cap_uw <= high:
        raise InvalidRequestError(
            f"cap of {cap_uw / 1e6:.3f} W per node is outside the range of the nodes, "
            f"{low / 1e6:.3f}..{high / 1e6:.3f} W",
        )


def _check_levels(levels: Levels, nodes: list[NodeSpec]) -> None:
    """Check that power levels are within the range of at least one node or one of its GPUs."""
    if levels.dram_uw:
        ranges = [dram_range_uw(node) for node in nodes if dram_zones(node)]
        if not ranges:
            raise InvalidRequestError(
                f"a DRAM cap of {levels.dram_uw / 1e6:.3f} W is not possible: no node has "
                "DRAM with a power cap"
            )
        _check_range("DRAM cap", "per node", levels.dram_uw, ranges)
    if levels.gpu_uw:
        ranges = [
            (zone.floor_uw, zone.cap_uw_max)
            for node in nodes
            for zone in gpu_zones(node, node.gpus)
        ]
        if not ranges:
            raise InvalidRequestError(
                f"a GPU cap of {levels.gpu_uw / 1e6:.3f} W is not possible: no node has GPUs "
                "with a power cap"
            )
        _check_range("GPU cap", "per GPU", levels.gpu_uw, ranges)


def _check_range(what: str, each: str, asked_uw: int, ranges: list[tuple[int, int]]) -> None:
    low_uw, high_uw = min(low for low, _ in ranges), max(high for _, high in ranges)
    if not low_uw <= asked_uw <= high_uw:
        raise InvalidRequestError(
            f"{what} of {asked_uw / 1e6:.3f} W {each} is outside the range of the nodes, "
            f"{low_uw / 1e6:.3f}..{high_uw / 1e6:.3f} W"
        )
