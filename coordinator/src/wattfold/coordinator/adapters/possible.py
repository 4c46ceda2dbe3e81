"""Whether a submission could ever start on the nodes there are; refusals say value and limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.submissions import InvalidRequestError
from wattfold.coordinator.core.amounts import gpus_text, memory_text
from wattfold.coordinator.core.charge import cores_uw, dram_range_uw, dram_zones, gpu_zones
from wattfold.coordinator.core.job import JobSpec, SizeUnit
from wattfold.coordinator.core.job_units import least_uw, size_text, units_over, units_within
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.node import NodeSpec
from wattfold.coordinator.core.reach import spans_nodes
from wattfold.coordinator.core.spread import Spread


def check_possible(
    spec: JobSpec,
    nodes: Iterable[NodeSpec],
    spendable_uw: int,
    features: Mapping[NodeId, tuple[str, ...]] | None = None,
    dram_cap_uw: int = 0,
) -> None:
    """Refuses what no node heard of could ever hold. Without nodes, everything may become true.

    ``features`` are all of each node; left out, those that its agent tells.
    ``spendable_uw`` is the power above the floors that the budget leaves to all jobs together.
    ``dram_cap_uw`` is the standing cap of DRAM zones, as in `CoreSettings`.
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
    if spec.cap_uw or spec.levels:
        _check_power(spec, known, spendable_uw, dram_cap_uw)


def _with_requests(
    spec: JobSpec, nodes: list[NodeSpec], features: Mapping[NodeId, tuple[str, ...]] | None
) -> list[NodeSpec]:
    """The nodes that have what a job asks for beside cores. Refuses where there are too few."""
    strange = [name for name in spec.among if name not in (features or {n.node_id for n in nodes})]
    if strange:
        raise InvalidRequestError(f"node {strange[0]!r} does not exist")
    able = [node for node in nodes if not spec.among or node.node_id in spec.among]
    if not able:
        return nodes  # Of those that it names nothing is known yet.
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
    """A processor map takes as many PEs of each node: those the job may be on must have as many."""
    cores = sorted({len(node.cpus) for node in nodes})
    if len(cores) > 1:
        raise InvalidRequestError(
            "a processor map needs nodes with equal numbers of cores, but the nodes for "
            f"this job have {cores[0]} to {cores[-1]}; select identical nodes with "
            "--features or --among"
        )


def _check_unit(spec: JobSpec, nodes: list[NodeSpec]) -> None:
    """A unit must fit a node by its cores; what else it asks for comes after."""
    best = max(nodes, key=lambda node: len(node.cpus))
    if spec.unit_cores > len(best.cpus):
        raise InvalidRequestError(
            f"the job requests units of {spec.unit_cores} cores; the largest node, "
            f"{best.node_id}, has {len(best.cpus)}"
        )


def _check_units(spec: JobSpec, able: list[NodeSpec]) -> None:
    """The nodes that have what a unit asks for must hold all units of a job, as they are spread."""
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
    """Levels of other zones must be within what one of the nodes, or of their GPUs, can hold."""
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


def _check_power(spec: JobSpec, nodes: list[NodeSpec], spendable_uw: int, dram_cap_uw: int) -> None:
    """A job with caps of its own must fit the budget when it is alone; packages and GPUs without
    one count at their floors."""

    def takes_uw(node: NodeSpec, cores: int) -> int:
        gpus = spec.amounts_on(cores).gpus if spec.levels.gpu_uw else 0
        return cores_uw(node, cores, spec.cap_uw, spec.levels, dram_cap_uw, gpus)

    if spec.unit is SizeUnit.NODES:
        each = sorted(takes_uw(node, len(node.cpus)) for node in nodes)
        needed_uw = sum(each[: spec.size_min])
    elif spec.unit is SizeUnit.UNITS:
        fits = [units_within(spec, node.capacity) for node in nodes]
        found_uw = least_uw(spec, spec.size_min, fits, lambda i, cores: takes_uw(nodes[i], cores))
        assert found_uw is not None, "they hold all of its units"
        needed_uw = found_uw
    else:
        large = [node for node in nodes if len(node.cpus) >= spec.size_min]
        needed_uw = min(takes_uw(node, spec.size_min) for node in large)
    if needed_uw > spendable_uw:
        asked = [f"{spec.cap_uw / 1e6:.3f} W per node"] if spec.cap_uw else []
        asked += [f"{spec.levels.dram_uw / 1e6:.3f} W of DRAM"] if spec.levels.dram_uw else []
        asked += [f"{spec.levels.gpu_uw / 1e6:.3f} W per GPU"] if spec.levels.gpu_uw else []
        raise InvalidRequestError(
            f"{size_text(spec, spec.size_min)} at {' and '.join(asked)} need "
            f"{needed_uw / 1e6:.3f} W above idle, but the budget leaves "
            f"{spendable_uw / 1e6:.3f} W for jobs; request a lower cap or a smaller size",
        )
