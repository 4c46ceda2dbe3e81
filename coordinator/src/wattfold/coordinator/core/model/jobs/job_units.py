"""Conversion between sizes of jobs and cores of nodes, for every unit of size.

A job unit is a number of cores of one node, with memory and GPUs. A node may hold several units of
a job. All nodes of a job hold whole units, so the number of its cores on a node gives the number of
units there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit


def counted(spec: JobSpec, shares: Sequence[Share]) -> int:
    """Return the size of a job with these shares."""
    if spec.unit is SizeUnit.NODES:
        return len(shares)
    if spec.unit is SizeUnit.UNITS:
        return sum(spec.units_on(len(share.cpus)) for share in shares)
    return sum(len(share.cpus) for share in shares)


def misshapen(spec: JobSpec, size: int, shares: Sequence[Share]) -> str:
    """Return why shares do not match the size of a job, by the numbers of nodes and cores alone.

    The result is empty if they match.
    """
    for share in shares if spec.unit is SizeUnit.UNITS else ():
        cores = len(share.cpus)
        if cores % spec.unit_cores:
            return (
                f"{cores} cores of {share.node_id} are not a multiple of the unit size, "
                f"{spec.unit_cores} cores"
            )
        if spec.spread is Spread.APART and cores != spec.unit_cores:
            return (
                f"{spec.units_on(cores)} units are on {share.node_id}, but the job requires one "
                "unit per node"
            )
    if (found := counted(spec, shares)) != size:
        return f"size {size} does not match the assigned {found} {spec.unit.value}"
    if spec.unit is SizeUnit.CORES and len(shares) != 1:
        return "a job sized in cores must be on exactly one node"
    if spec.unit is SizeUnit.UNITS and spec.spread is Spread.TOGETHER and len(shares) != 1:
        return f"its units are on {len(shares)} nodes, but the job requires all units on one node"
    return ""


def units_within(spec: JobSpec, free: Amounts) -> int:
    """Return how many units of a job fit into the free amounts of a node."""
    most = free.cores // spec.unit_cores
    if spec.memory_bytes:
        most = min(most, free.memory_bytes // spec.memory_bytes)
    if spec.gpus:
        most = min(most, free.gpus // spec.gpus)
    return max(min(most, 1) if spec.spread is Spread.APART else most, 0)


def units_over(spec: JobSpec, each: Iterable[int]) -> int:
    """Return how many units of a job fit, given the number for each node (`units_within`)."""
    return max(each, default=0) if spec.spread is Spread.TOGETHER else sum(each)


def least_uw(
    spec: JobSpec, size: int, each: Sequence[int], takes_uw: Callable[[int, int], int]
) -> int | None:
    """Return the minimum power of ``size`` units; None = they do not fit.

    ``each`` is the number of units that each node can hold. ``takes_uw`` returns the power of a
    number of cores of a node, which it gets by its index in ``each``.
    """
    if units_over(spec, each) < size:
        return None
    if spec.spread is Spread.TOGETHER:
        return min(takes_uw(i, size * spec.unit_cores) for i, n in enumerate(each) if n >= size)
    held = [i for i, units in enumerate(each) if units]
    total_uw, left = 0, size
    for i in sorted(held, key=lambda i: takes_uw(i, spec.unit_cores)):
        units = min(each[i], left)
        total_uw += takes_uw(i, units * spec.unit_cores)
        left -= units
        if not left:
            break
    return total_uw


def size_text(spec: JobSpec, size: int) -> str:
    """Format a size with its unit: ``3 nodes``, ``1 core``, ``4 units of 8 cores``."""
    text = count_text(size, spec.unit)
    if spec.unit is not SizeUnit.UNITS:
        return text
    return f"{text} of {count_text(spec.unit_cores, SizeUnit.CORES)}"


def count_text(size: int, unit: SizeUnit) -> str:
    """Format a size with its unit, without the cores of a unit."""
    return f"{size} {unit.value if size != 1 else unit.value.removesuffix('s')}"
