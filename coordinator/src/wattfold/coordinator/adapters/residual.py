"""What was measured of residual work, for the policies: cores that are free, but not idle.

The core decides on the journal alone and knows nothing of measurements; a policy is told of these
beside it. A policy may ignore them: the cores are free, and whoever still runs there takes part in
the reductions of its job, so that it must not be slowed.
"""

from __future__ import annotations

import dataclasses
import logging

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.observations import NodeSample, Observations
from wattfold.coordinator.core.plan import Snapshot

LOAD_MIN = 0.01
"""CPU seconds a second; the peaks of an idle residual process are about 0.02."""

log = logging.getLogger("wattfold.residual")


def with_residual(snapshot: Snapshot, seen: Observations) -> Snapshot:
    """The snapshot with the cores on which residual work was measured of late."""
    cores = {node_id: residual_cores(sample) for node_id, sample in seen.nodes.items()}
    if not any(cores.values()):
        return snapshot
    nodes = tuple(
        dataclasses.replace(node, residual=cores.get(node.spec.node_id, CpuSet()))
        for node in snapshot.nodes
    )
    return dataclasses.replace(snapshot, nodes=nodes)


def residual_cores(sample: NodeSample) -> CpuSet:
    """Cores of a node with more residual work than can be neglected."""
    loads: dict[int, float] = {}
    for job in sample.jobs.values():
        for core in job.residual:
            loads[core.cpu] = loads.get(core.cpu, 0.0) + core.load
    return CpuSet.of(cpu for cpu, load in loads.items() if load >= LOAD_MIN)


class AlarmLog:
    """One line when the alarm of a job on a node begins, and one when it ends."""

    def __init__(self) -> None:
        self._raised: dict[NodeId, set[str]] = {}

    def take(self, sample: NodeSample) -> None:
        """Compares a sample with the one before."""
        before = self._raised.get(sample.node_id, set())
        now = {str(job_id) for job_id, job in sample.jobs.items() if job.residual_alarm}
        for job_id, job in sample.jobs.items():
            if job_id in now - before:
                cores = " ".join(f"{c.cpu}:{c.load:.3f}" for c in job.residual if c.load)
                log.warning(
                    "residual_alarm node=%s job=%s load_by_cpu=%r", sample.node_id, job_id, cores
                )
        for name in sorted(before - now):
            log.info("residual_alarm_over node=%s job=%s", sample.node_id, name)
        self._raised[sample.node_id] = now
