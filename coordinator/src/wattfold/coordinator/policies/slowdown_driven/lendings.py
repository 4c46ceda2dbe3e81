"""Current loans of cores under slowdown-driven backfill, for users whose jobs share nodes.

They are derived from the resources of running jobs, as the policy does in each round. A job with
fewer cores on a node than requested lends to the jobs that started there later.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.plan import Snapshot
from wattfold.coordinator.policies.driver.rounds import site_of
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """Cores of a node that a running job lends. ``limit``: slowdown at which lending stops."""

    lender: JobId
    guest: JobId
    node_id: NodeId
    cores: int
    until_ns: int
    slowdown: float
    limit: float


def lendings(seen: Snapshot, policy: SlowdownDriven) -> list[Lending]:
    """Return all current loans of running jobs, by lender and node."""
    running = [view for view in seen.jobs if view.current is not None]
    if not seen.nodes or not running:
        return []
    ground = FreeResources(site_of(seen), seen.now_ns, policy.guests)
    # Unchanged: no cores are returned, and no cap is raised.
    ground.adopt(list(enumerate(running)), among=())
    limit = policy.max_slowdown
    if policy.dynamic:
        limit = sum(run.slowdown for run in ground.runs.values()) / len(ground.runs)
    return [
        Lending(
            lender=run.view.job_id,
            guest=guest.view.job_id,
            node_id=share.node_id,
            cores=len(part.cpus),
            until_ns=guest.ends_ns,
            slowdown=run.slowdown,
            limit=limit,
        )
        for run in ground.runs.values()
        for share in run.given.shares
        if run.grows and len(share.cpus) < run.fulls[share.node_id]
        for guest in ground.on(share.node_id)
        if guest.since > run.since
        for part in guest.given.shares
        if part.node_id == share.node_id
    ]
