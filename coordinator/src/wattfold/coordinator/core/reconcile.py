"""Compare the confirmed state with its targets and return the next safe steps.

The module is level-triggered: it examines the state, not the changes. A lost answer, a restart or a
late node needs no special case. Two rules determine the order of a transition.

- A cap may be lowered at any time. It is raised only within the room of the ledger. The ledger
  frees a lowered cap only after its read-back and its averaging window.
- A core is assigned only when no other job may still be running on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.processor_map import map_of
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.node import IN_SERVICE, Duty, Node, NodeState
from wattfold.coordinator.core.power.charge import originals_uw
from wattfold.coordinator.core.rules.nodes import leave, reach, sleep
from wattfold.coordinator.core.rules.power import cap_steps, cap_targets
from wattfold.coordinator.core.state.blocked import has_beside_cores
from wattfold.coordinator.core.state.index import Touched
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examined:
    """The nodes to examine, and the jobs to examine on all of their nodes."""

    nodes: tuple[Node, ...]
    node_ids: frozenset[NodeId]
    jobs: frozenset[JobId]

    def ranks(self, job: Job) -> list[Rank]:
        """Return the processes of a job to examine, in their order."""
        ranks = list(job.ranks.values())
        if job.job_id in self.jobs:
            return ranks
        return [rank for rank in ranks if rank.node_id in self.node_ids]


def reconcile(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Return the next steps, lowered caps first, and mark them as pending in the state.

    Examines only the parts touched since the last call. Every other part has reached its target or
    waits for an event that touches it.
    """
    look = _take_touched(state)
    out = _leases(state, look.nodes, now_ns, cause)
    out += _leaves(state, now_ns, cause) + sleep.steps(state, now_ns, cause)
    anew = cap_targets.update(state, look.node_ids)
    capped = state.nodes.keys() if anew else look.node_ids
    out += cap_steps.lower(state, capped, now_ns, cause)
    out += cap_steps.lower_strangers(state, look.nodes, now_ns, cause)
    for job in _jobs(state, look):
        if job.state is JobState.ENDING:
            out += _terminate(state, job, look.ranks(job), now_ns, cause)
        elif job.target is not None:
            out += _suspensions(state, job, look.ranks(job), now_ns, cause)
            out += _masks(state, job, look.ranks(job), now_ns, cause)
            out += _launches(state, job, look, now_ns, cause)
    out += cap_steps.raise_caps(state, capped, now_ns, cause)
    if state.ledger.ramp.active:
        state.ledger.ramp.note(state.ledger.possible_uw)
    for node in look.nodes:
        state.index.set_due(node.node_id, _due_ns(state, node, now_ns))
    return out


def _take_touched(state: State) -> _Examined:
    index, ledger = state.index, state.ledger
    touched, index.touched = index.touched, Touched(everything=False)
    touched.nodes |= ledger.touched
    if touched.everything:
        nodes = tuple(state.nodes.values())
        jobs = frozenset(job.job_id for job in state.placed())
    else:
        known = [n for n in touched.nodes if n in state.nodes]
        nodes = tuple(state.nodes[n] for n in sorted(known, key=index.node_order))
        jobs = frozenset(touched.jobs)
    ledger.touched.clear()
    return _Examined(nodes=nodes, node_ids=frozenset(node.node_id for node in nodes), jobs=jobs)


def _jobs(state: State, look: _Examined) -> list[Job]:
    """Return the jobs to examine, in order of submission."""
    found = {job.job_id: job for node in look.nodes for job in state.on_node(node.node_id)}
    for job_id in look.jobs:
        job = state.index.open.get(job_id)
        if job is not None and job.state in PLACED_STATES:
            found[job_id] = job
    return state.index.ordered(found.values())


def _due_ns(state: State, node: Node, now_ns: int) -> int | None:
    """Return the next time at which something about a node is due without an event."""
    times = [node.caps_retry_ns, node.leave_from_ns, *sleep.next_ns(state, node)]
    if node.reachable and node.admitted and not node.lease_request:
        times.append(node.lease_next_ns)
    if node.state is NodeState.SILENT:
        times.append(node.lease_until_ns)
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None:
            times.append(rank.retry_ns)
    return min((time for time in times if time > now_ns), default=None)


def _leases(state: State, nodes: Iterable[Node], now_ns: int, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for node in nodes:
        # Without a lease, a node that is not admitted falls to its floor or stays there.
        obeys = node.reachable and node.admitted and node.duty in IN_SERVICE
        free = obeys and not node.lease_request
        if free and now_ns >= node.lease_next_ns:
            node.lease_request = state.next_request()
            node.lease_reads = not node.caps_request
            # Until the answer, the lease may be granted as late as the command times out.
            latest_ns = now_ns + state.command_timeout_ns + state.lease_ns
            node.lease_until_ns = max(
                node.lease_until_ns,
                latest_ns + state.settings.lease_slack_ns,
            )
            out.append(
                act.RenewLease(
                    node_id=node.node_id,
                    duration_ns=state.lease_ns,
                    request_id=node.lease_request,
                    cause=cause,
                ),
            )
    return out


def _leaves(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Restore the original limits of leaving nodes for which there is room."""
    out: list[act.Action] = []
    if not state.index.leaving:
        return out
    for node in sorted(
        state.index.leaving.values(), key=lambda node: state.index.node_order(node.node_id)
    ):
        if node.spec is None or not leave.due(state, node, now_ns):
            continue
        state.ledger.send(node.node_id, originals_uw(node, node.spec))
        leave.set_duty(state, node, Duty.RESTORING)
        node.caps_request, node.lease_reads = state.next_request(), False
        out.append(act.Leave(node_id=node.node_id, request_id=node.caps_request, cause=cause))
    return out


def _terminate(
    state: State, job: Job, ranks: Iterable[Rank], now_ns: int, cause: str
) -> list[act.Action]:
    out: list[act.Action] = []
    first = next(iter(job.ranks.values()), None)
    order = job.requeue
    if job.spec.own_launcher and first is not None and first.end is not None:
        order = None  # Its remaining processes are step hosts.
    for rank in ranks:
        alive = rank.end is None and (rank.running or rank.launching)
        asks = alive and not rank.signalled and now_ns >= rank.retry_ns
        if asks and state.nodes[rank.node_id].reachable:
            rank.signalled = True
            rank.orders += 1
            out.append(
                act.Terminate(
                    node_id=rank.node_id,
                    job_id=job.job_id,
                    request_id=state.next_request(),
                    cause=cause,
                    attempt=job.attempt,
                    signal=order.signal if order else 0,
                    grace_ns=order.grace_ns if order else 0,
                    saves=order is not None and job.following is not None,
                ),
            )
    return out


def _suspensions(
    state: State, job: Job, ranks: Iterable[Rank], now_ns: int, cause: str
) -> list[act.Action]:
    """Suspend or resume processes to match the state of their job."""
    wanted = job.state is JobState.SUSPENDED
    out: list[act.Action] = []
    if job.spec.manager:
        return out
    for rank in ranks:
        asks = rank.running and rank.stopped is not wanted and not rank.stopping
        if not asks or now_ns < rank.retry_ns or not state.nodes[rank.node_id].reachable:
            continue
        rank.stopping = True
        out.append(
            act.Suspend(
                node_id=rank.node_id,
                job_id=job.job_id,
                suspended=wanted,
                request_id=state.next_request(),
                cause=cause,
                attempt=job.attempt,
            )
        )
    return out


def _masks(
    state: State, job: Job, ranks: Iterable[Rank], now_ns: int, cause: str
) -> list[act.Action]:
    out: list[act.Action] = []
    if job.reach:
        return _reach_steps(state, job, ranks, now_ns, cause)
    wanted = {s.node_id: s.cpus for s in job.target.shares} if job.target else {}
    for rank in ranks:
        idle = rank.running and rank.moving_to is None and now_ns >= rank.retry_ns
        if not idle or not state.nodes[rank.node_id].reachable:
            continue
        step = _mask_step(rank.held, wanted.get(rank.node_id, CpuSet()))
        if step is None or not _free(state, rank.node_id, job, step - rank.held):
            continue
        rank.moving_to = step
        out.append(
            act.SetMask(
                node_id=rank.node_id,
                job_id=job.job_id,
                cpus=step,
                request_id=state.next_request(),
                cause=cause,
                processor_map=map_of(job.spec, step, rank.launch_cpus),
                attempt=job.attempt,
            ),
        )
    return out


def _reach_steps(
    state: State, job: Job, ranks: Iterable[Rank], now_ns: int, cause: str
) -> list[act.Action]:
    out: list[act.Action] = []
    for step in reach.due_steps(state, job, ranks, now_ns):
        rank, spec = step.rank, state.nodes[step.rank.node_id].spec
        if spec is None or not _free(state, rank.node_id, job, step.cpus - rank.held):
            continue
        rank.moving_to = step.cpus
        out.append(
            act.SetMask(
                node_id=rank.node_id,
                job_id=job.job_id,
                cpus=reach.berth(spec) if step.resident else step.cpus,
                request_id=state.next_request(),
                cause=cause,
                processor_map=step.pe_map,
                attempt=job.attempt,
                resident=step.resident,
            ),
        )
    return out


def _mask_step(held: CpuSet, wanted: CpuSet) -> CpuSet | None:
    """Return the next mask between two masks: first release, then take. None = reached."""
    if held == wanted or not wanted:
        return None
    stay = held & wanted
    if held - wanted and stay:
        return stay
    return wanted


def _free(state: State, node_id: NodeId, job: Job, cpus: CpuSet) -> bool:
    return cpus.isdisjoint(state.occupied(node_id, but=job.job_id))


def _launches(state: State, job: Job, look: _Examined, now_ns: int, cause: str) -> list[act.Action]:
    if job.state is not JobState.STARTING or job.target is None:
        return []
    fresh = not job.ranks
    if fresh:
        ready = all(
            s.node_id in state.nodes
            and state.nodes[s.node_id].takes_jobs
            and state.nodes[s.node_id].reachable
            and _free(state, s.node_id, job, s.cpus)
            and has_beside_cores(state, state.nodes[s.node_id], s)
            for s in job.target.shares
        ) and all(
            node_id in state.nodes
            and state.nodes[node_id].takes_jobs
            and state.nodes[node_id].reachable
            for node_id in job.reach
        )
        if not ready:
            return []
        for share in job.target.shares:
            job.ranks[share.node_id] = Rank(
                node_id=share.node_id,
                held=share.cpus,
                memory_bytes=share.memory_bytes,
                gpus=share.gpus,
            )
        for node_id in job.reach:
            if node_id not in job.ranks:
                job.ranks[node_id] = Rank(node_id=node_id, held=CpuSet(), resident=True)
        if job.reach:
            reach.begin(state, job)
    return [
        _launch(state, job, rank, position, cause)
        for position, rank in enumerate(job.ranks.values())
        if (fresh or job.job_id in look.jobs or rank.node_id in look.node_ids)
        and _due(state, rank, now_ns)
    ]


def _due(state: State, rank: Rank, now_ns: int) -> bool:
    fresh = not (rank.launching or rank.running or rank.end)
    return fresh and now_ns >= rank.retry_ns and state.nodes[rank.node_id].reachable


def _launch(state: State, job: Job, rank: Rank, position: int, cause: str) -> act.Action:
    rank.launching = True
    spec = state.nodes[rank.node_id].spec
    most = len(rank.held)
    if job.resizable and not job.restarted and spec:
        if job.spec.unit is SizeUnit.CORES:
            most = min(job.spec.size_max, len(spec.cpus))
        elif not job.spec.alone:
            most = len(spec.cpus)
    # A repeated start after a lost answer must be identical to the first start.
    most = rank.launch_cpus = rank.launch_cpus or most
    cpus = reach.berth(spec) if rank.resident and spec else rank.held
    pe_map = rank.pe_map if job.reach else map_of(job.spec, rank.held, most)
    return act.Launch(
        node_id=rank.node_id,
        job_id=job.job_id,
        spec=job.spec,
        cpus=cpus,
        launch_cpus=most,
        rank=position,
        ranks=len(job.ranks),
        request_id=state.next_request(),
        cause=cause,
        processor_map=pe_map,
        steps_only=job.spec.own_launcher and position > 0,
        step_nodes=_step_nodes(state, job) if job.spec.own_launcher else (),
        gpus=rank.gpus,
        attempt=job.attempt,
        resident=rank.resident,
        pes=sum(one.launch_cpus for one in job.ranks.values()) if job.reach else 0,
    )


def _step_nodes(state: State, job: Job) -> tuple[act.StepNode, ...]:
    specs = {node_id: state.nodes[node_id].spec for node_id in job.ranks}
    return tuple(
        act.StepNode(
            node_id=rank.node_id,
            address=spec.steps_address if (spec := specs[rank.node_id]) else "",
            cpus=rank.launch_cpus if job.reach else len(rank.held),
        )
        for rank in job.ranks.values()
    )
