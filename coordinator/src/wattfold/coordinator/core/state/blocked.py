"""Memory and GPUs of a node that are in use by its jobs, or blocked for all policies.

As with cores, a job holds them until its process there has ended. The GPUs used by processes of
other journals are unknown. So while there are any, no GPU of the node is assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.node import Node, NodeSpec
from wattfold.coordinator.core.state.state import State


def alive_there(state: State, node: Node) -> Iterator[tuple[Job, Rank]]:
    """Yield the jobs whose process on a node has not ended, or is about to start."""
    return alive_among(state.on_node(node.node_id), node.node_id)


def alive_among(jobs: Iterable[Job], node_id: NodeId) -> Iterator[tuple[Job, Rank]]:
    """Yield the jobs among ``jobs`` whose process on a node has not ended."""
    for job in jobs:
        rank = job.ranks.get(node_id)
        if rank is not None and rank.end is None:
            yield job, rank


def blocked_amounts(state: State, node: Node) -> tuple[int, tuple[str, ...]]:
    """Return the bytes of memory and the GPUs of ending jobs and of stray processes."""
    if node.spec is None or not (node.spec.memory_bytes or node.spec.gpus):
        return 0, ()
    held = [
        _held_there(job, node.node_id)
        for job in state.on_node(node.node_id)
        if job.state is JobState.ENDING and job.spec.requests
    ]
    stray_bytes, gpus = _stray_resources(state, node)
    return (
        stray_bytes + sum(memory_bytes for memory_bytes, _ in held),
        gpus or tuple(gpu for _, its_gpus in held for gpu in its_gpus),
    )


def _held_there(job: Job, node_id: NodeId) -> tuple[int, tuple[str, ...]]:
    """Return the memory and GPUs that an ending job, or its next attempt, holds on a node."""
    rank = job.ranks.get(node_id)
    shares = job.following.shares if job.following else ()
    parts: list[Rank | Share] = [share for share in shares if share.node_id == node_id]
    parts += [rank] if rank is not None and rank.end is None else []
    return (
        max((part.memory_bytes for part in parts), default=0),
        tuple(dict.fromkeys(gpu for part in parts for gpu in part.gpus)),
    )


def has_beside_cores(state: State, node: Node, share: Share) -> bool:
    """Whether the memory and GPUs of a share exist and are free now."""
    if not (share.memory_bytes or share.gpus):
        return True
    if node.spec is None:
        return False
    free = free_amounts(state, node, node.spec)
    return share.memory_bytes <= free.memory_bytes and {*share.gpus} <= {*free.gpus}


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Free bytes of memory and free GPUs."""

    memory_bytes: int
    gpus: tuple[str, ...]


def free_amounts(state: State, node: Node, spec: NodeSpec) -> Free:
    """Return the free memory and GPUs of a node now."""
    held = [rank for _, rank in alive_there(state, node)]
    stray_bytes, stray_gpus = _stray_resources(state, node)
    used_bytes = stray_bytes + sum(rank.memory_bytes for rank in held)
    taken = {*stray_gpus, *(gpu for rank in held for gpu in rank.gpus)}
    return Free(
        memory_bytes=max(spec.memory_bytes - used_bytes, 0),
        gpus=tuple(gpu for gpu in spec.gpus if gpu not in taken),
    )


def note_lack(state: State, node: Node) -> None:
    """Record memory and GPUs that jobs of a node hold but its agent no longer offers."""
    if node.spec is None:
        return
    ranks = [rank for _, rank in alive_there(state, node)]
    used_bytes = sum(rank.memory_bytes for rank in ranks)
    node.lacking_bytes = max(used_bytes - node.spec.memory_bytes, 0)
    gone = {gpu for rank in ranks for gpu in rank.gpus} - {*node.spec.gpus}
    node.lacking_gpus = tuple(sorted(gone))


def _stray_resources(state: State, node: Node) -> tuple[int, tuple[str, ...]]:
    if not node.foreign or node.spec is None:
        return 0, ()
    known = [
        state.jobs[job_id].spec.amounts_on(len(cpus))
        for job_id, cpus in node.foreign.items()
        if job_id in state.jobs
    ]
    unsure = len(known) < len(node.foreign) or any(held.gpus for held in known)
    return sum(held.memory_bytes for held in known), node.spec.gpus if unsure else ()
