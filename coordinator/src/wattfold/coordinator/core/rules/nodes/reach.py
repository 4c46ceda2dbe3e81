"""Jobs whose processor map spans nodes: they start on all nodes they may ever use, their *reach*.

A Charm++ program cannot get processes on another node while it runs. So such a job on whole nodes
with mode map is started with PEs on all nodes of its reach. The map enables the PEs on nodes that
it holds. On the other nodes it is *resident*: it holds no core and sleeps without disturbing other
jobs. Its use is accounted, and it ends with the job. A node changes hands in a safe order:

- released: first the map, until no object is there. Then the processes move to one core that other
  jobs may hold. Then the cores are free.
- taken again: first the cores, then the map.

The map is sent to the agent of the first node, where the program was started. The job keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.contract.processor_map import first_pes
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.jobs.spec import JobSpec, ResizeMode
from wattfold.coordinator.core.model.node import Node, NodeSpec
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresStep:
    """The next step on a node: other cores, or none (``resident``); a map on the first node."""

    rank: Rank
    cpus: CpuSet
    resident: bool = False
    pe_map: bytes = b""


def spans_nodes(spec: JobSpec) -> bool:
    """Whether a job of this submission has a reach."""
    return spec.mode is ResizeMode.MAP and spec.unit is SizeUnit.NODES


def berth(spec: NodeSpec) -> CpuSet:
    """Return the core for resident processes of jobs on a node, shared by all of them."""
    return CpuSet.of([max(spec.cpus)])


def chosen(state: State, wanted: Assignment, spec: JobSpec) -> tuple[NodeId, ...] | str:
    """Return the reach of a job that starts on some nodes, these first; or why it has none.

    All nodes have the same number of cores, because its launcher spreads PEs evenly. Nodes with
    fewer resident jobs come first.
    """
    held = tuple(share.node_id for share in wanted.shares)
    like = state.nodes[held[0]].spec
    for node_id in held:
        why = _unfit(state, state.nodes[node_id], like, spec, first=node_id == held[0])
        if why:
            return why
    others = [
        node
        for node in state.nodes.values()
        if node.node_id not in held and not _unfit(state, node, like, spec, first=False)
    ]
    others.sort(key=lambda node: len(residents(state, node.node_id)))
    return (*held, *(node.node_id for node in others[: spec.size_max - len(held)]))


def _unfit(state: State, node: Node, like: NodeSpec | None, spec: JobSpec, *, first: bool) -> str:
    """Return why a Charm++ job that spans nodes cannot have PEs on a node, or an empty string."""
    mine = node.spec
    if mine is None or like is None or not (node.usable and node.reachable and node.takes_jobs):
        return f"node {node.node_id} does not accept jobs now"
    kept = [one for one in state.reservations.values() if node.node_id in one.nodes]
    if not first and not all(one.admits(spec) for one in kept):
        return f"node {node.node_id} is in a reservation that excludes the job"
    if spec.reservation and not kept:
        return f"node {node.node_id} is not in the reservation of the job"
    if node.dead_zones or not {*spec.features} <= {*node.all_features}:
        return f"node {node.node_id} has a failed power zone or lacks a requested feature"
    if len(mine.cpus) != len(like.cpus):
        return (
            f"a processor map needs nodes with equal numbers of cores: {node.node_id} has "
            f"{len(mine.cpus)}, {like.node_id} has {len(like.cpus)}"
        )
    if not first and not mine.steps_address:
        return f"node {node.node_id} does not accept job steps; set steps_listen of its agent"
    return ""


def residents(state: State, node_id: NodeId) -> list[Job]:
    """Return jobs with residual processes on a node that hold no core there."""
    return [
        job
        for job in state.on_node(node_id)
        if (rank := job.ranks.get(node_id)) is not None and rank.resident and rank.end is None
    ]


def wrong_nodes(wanted: Assignment, job: Job, state: State) -> str:
    """Return why a running job with a reach cannot move to these nodes, or an empty string."""
    nodes = [share.node_id for share in wanted.shares]
    for node_id in nodes:
        if node_id not in job.reach:
            return f"the job has PEs only on {', '.join(job.reach)}, not on {node_id}"
        held = job.target is not None and job.target.on(node_id)
        if not held and not state.nodes[node_id].takes_jobs:
            return f"node {node_id} is {state.nodes[node_id].duty.value}"
    if job.reach[0] not in nodes:
        return f"the program was started on {job.reach[0]}, so the job must keep this node"
    return ""


def begin(state: State, job: Job) -> None:
    """Set the initial state of the ranks of a job before its launch."""
    for rank in job.ranks.values():
        spec = state.nodes[rank.node_id].spec
        rank.launch_cpus = len(spec.cpus) if spec else len(rank.held)
    first = next(iter(job.ranks.values()))
    first.pe_map = map_of_all(job)
    state.index.place(job)


def map_of_all(job: Job) -> bytes:
    """Return the map for the cores that it holds and keeps, node by node of its reach."""
    parts = []
    for rank in job.ranks.values():
        own = job.target.on(rank.node_id) if job.target else CpuSet()
        enabled = 0 if rank.resident or rank.unsure else len(rank.held & own)
        parts.append(first_pes(rank.launch_cpus, enabled) if enabled else bytes(rank.launch_cpus))
    return b"".join(parts)


def due_steps(state: State, job: Job, ranks: Iterable[Rank], now_ns: int) -> Iterator[CoresStep]:
    """Return the next steps of a job towards its target, on these nodes."""
    first = next(iter(job.ranks.values()), None)
    if first is None:
        return  # It has not been launched.
    wanted = map_of_all(job)
    settled = first.moving_to is None and first.pe_map == wanted
    # One map for all nodes that are being taken, once the last of them has answered.
    more_to_come = any(rank.moving_to for rank in job.ranks.values() if rank is not first)
    waits = more_to_come and _only_grows(first.pe_map, wanted)
    for rank in ranks:
        idle = rank.running and rank.moving_to is None and now_ns >= rank.retry_ns
        if not idle or not state.nodes[rank.node_id].reachable or job.target is None:
            continue
        own = job.target.on(rank.node_id)
        if rank is first:
            if rank.held != own or not (settled or waits):
                yield CoresStep(rank=rank, cpus=own, pe_map=wanted)
        elif own:
            if rank.unsure or rank.held != own:
                yield CoresStep(rank=rank, cpus=own)
        elif settled and not rank.resident:
            yield CoresStep(rank=rank, cpus=CpuSet(), resident=True)


def _only_grows(before: bytes, wanted: bytes) -> bool:
    return bool(before) and all(new >= old for old, new in zip(before, wanted, strict=True))


def confirmed(
    state: State, job: Job, rank: Rank, *, resident: bool, pe_map: bytes, applied: bool, now_ns: int
) -> None:
    """Record the answer of an agent to a step."""
    state.index.touch_job(job)
    first = rank is next(iter(job.ranks.values()))
    if first:
        rank.pe_map = pe_map if applied else b""
        if not applied:
            rank.retry_ns = now_ns + state.settings.retry_ns
            job.reason = "the program has not applied its processor map yet"
        return
    rank.resident, rank.unsure = resident and not rank.held, False
    if resident:
        state.plan_needed = state.plan_needed or "node vacated"


def failed(state: State, job: Job, rank: Rank) -> None:
    """Mark the result of a step as unknown."""
    state.index.touch_job(job)
    rank.pe_map = b""
    if rank is not next(iter(job.ranks.values())) and rank.held:
        rank.resident, rank.unsure = False, True
