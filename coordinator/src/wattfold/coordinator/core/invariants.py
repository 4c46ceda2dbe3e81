"""What must hold after every event. A state that breaks it is a defect, never an outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import PLACED_STATES, Job, SizeUnit
from wattfold.coordinator.core.node import Node
from wattfold.coordinator.core.state import InvariantError, State


def check_invariants(state: State) -> None:
    """Raises InvariantError if what must always hold does not.

    Budget (unless a lowered one is on its way or a zone broke its word), masks of different jobs
    disjoint and inside their node, states and ranks in agreement, and what is derived from the
    state in agreement with it.
    """
    check_derived(state)
    check_part(state, state.nodes, state.jobs.values())


def check_part(state: State, nodes: Collection[NodeId], jobs: Iterable[Job]) -> None:
    """The same for the budget, some nodes and some jobs."""
    ledger = state.ledger
    excused = ledger.over_deadline_ns or ledger.in_breach
    if ledger.committed_uw > ledger.budget_uw and not excused:
        raise InvariantError(
            f"committed {ledger.committed_uw} uW above the budget of {ledger.budget_uw} uW",
        )
    for node_id in nodes:
        _check_masks(state, state.nodes[node_id])
    for job in jobs:
        if job.final and (job.target or any(rank.running for rank in job.ranks.values())):
            raise InvariantError(f"job {job.job_id} is {job.state.value} but still placed")
        if job.target and job.spec.unit is SizeUnit.CORES and len(job.target.shares) != 1:
            raise InvariantError(f"job {job.job_id} counts cores but has not one node")


def _check_masks(state: State, node: Node) -> None:
    seen = CpuSet()
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is None or not rank.occupied:
            continue
        if not seen.isdisjoint(rank.occupied):
            raise InvariantError(f"cores {rank.occupied & seen} of {node.node_id} are held twice")
        if node.spec and not rank.occupied <= node.spec.cpus:
            raise InvariantError(f"job {job.job_id} is outside the cores of {node.node_id}")
        seen |= rank.occupied


def check_derived(state: State) -> None:
    """Raises InvariantError where the index or a sum has lost something of the state."""
    ledger, index = state.ledger, state.index
    if ledger.committed_uw != ledger.recounted_uw():
        raise InvariantError(
            f"the ledger has {ledger.committed_uw} uW, its accounts {ledger.recounted_uw()} uW"
        )
    jobs = state.jobs.values()
    if list(index.open) != [job.job_id for job in jobs if not job.final]:
        raise InvariantError("the index has lost a job that has not ended, or kept one that has")
    placed = [job for job in jobs if job.state in PLACED_STATES]
    if index.placed() != placed:
        raise InvariantError("the index has lost a job that is placed")
    for job in placed:
        shares = job.target.shares if job.target else ()
        for node_id in {*job.ranks, *(share.node_id for share in shares)}:
            if all(other is not job for other in index.on_node(node_id)):
                raise InvariantError(f"the index has lost job {job.job_id} on {node_id}")
    if set(index.unadmitted) != {n.node_id for n in state.nodes.values() if not n.admitted}:
        raise InvariantError("the index has lost a node that is not admitted")
    if set(index.retired) != {n.node_id for n in state.nodes.values() if n.retired}:
        raise InvariantError("the index has lost a retired node")
