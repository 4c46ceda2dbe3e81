"""Measured residual work for the policies: cores that are free but not idle.

The core decides on the journal alone and does not use measurements, so policies receive them as an
additional input. A policy may ignore them, because the cores are free. A residual process takes
part in the reductions of its job, so it must not be slowed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations
from wattfold.coordinator.core.model.plan import Snapshot

log = logging.getLogger("wattfold.residual")


def with_residual(snapshot: Snapshot, seen: Observations) -> Snapshot:
    """Return the snapshot with the cores on which residual work was recently measured."""
    return with_cores(snapshot, seen.residual)


def with_cores(snapshot: Snapshot, cores: Mapping[NodeId, CpuSet]) -> Snapshot:
    """Return the snapshot with these cores marked as having residual work."""
    if not any(cores.values()):
        return snapshot
    nodes = tuple(
        dataclasses.replace(node, residual=cores.get(node.spec.node_id, CpuSet()))
        for node in snapshot.nodes
    )
    return dataclasses.replace(snapshot, nodes=nodes)


class AlarmLog:
    """Logs when the alarm of a job on a node begins and when it ends."""

    def __init__(self) -> None:
        self._raised: dict[NodeId, set[str]] = {}

    def take(self, sample: NodeSample) -> None:
        """Compare a sample with the previous sample."""
        before = self._raised.get(sample.node_id, set())
        now = {str(job_id) for job_id, job in sample.jobs.items() if job.residual_alarm}
        for job_id, job in sample.jobs.items():
            if job_id in now - before:
                cores = " ".join(f"{c.cpu}:{c.load:.3f}" for c in job.residual if c.load)
                told = {"node": sample.node_id, "job": job_id, "load_by_cpu": cores}
                log.warning(line("residual_alarm", **told))
        for name in sorted(before - now):
            log.info(line("residual_alarm_over", node=sample.node_id, job=name))
        self._raised[sample.node_id] = now
