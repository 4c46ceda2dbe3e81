"""Construction of the snapshot that policies plan with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core.model.job import KEEPS_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import NO_CORES, Share
from wattfold.coordinator.core.model.jobs.resize_cost import expected_ns, learnt_ns
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.model.jobs.speeds import NOT_MEASURED, measured_serial_ppm
from wattfold.coordinator.core.model.node import Duty, Node, NodeSpec, NodeState
from wattfold.coordinator.core.model.plan import NOBODY, BudgetAhead, JobView, NodeView, Snapshot
from wattfold.coordinator.core.model.queue import NO_WAITS
from wattfold.coordinator.core.power.charge import node_fixed_uw
from wattfold.coordinator.core.rules.accounts import fair_share
from wattfold.coordinator.core.rules.jobs import preemption, run_time_predictions
from wattfold.coordinator.core.rules.jobs.restart_target import firm, immovable, kept_uw
from wattfold.coordinator.core.rules.jobs.training_events import training_of
from wattfold.coordinator.core.rules.nodes import decided_sleep, sleep
from wattfold.coordinator.core.rules.nodes.leave import jobs_there, reserve_uw
from wattfold.coordinator.core.rules.power import budget_events
from wattfold.coordinator.core.rules.power.unaccounted_power import counted_uw
from wattfold.coordinator.core.state.blocked import blocked_amounts
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit


def snapshot(state: State, now_ns: int) -> Snapshot:
    """Return the input of a policy: usable nodes, waiting and running jobs, and available power."""
    views = job_views(state, state.index.open.values(), now_ns)
    return replace(without_jobs(state, now_ns), jobs=tuple(views))


def job_views(state: State, jobs: Iterable[Job], now_ns: int) -> list[JobView]:
    """Return the views of the jobs that policies plan for: they wait or run."""
    strays = state.stray_jobs()
    return [
        _job_view(state, job, now_ns)
        for job in jobs
        if job.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING)
        # A job with a stray process must not run a second time.
        and (job.ranks or job.job_id not in strays)
        and (job.target is not None or not job.spec.manager)
    ]


def without_jobs(state: State, now_ns: int) -> Snapshot:
    """Return `snapshot` without jobs. Its cost does not depend on waiting jobs."""
    views, reserved_uw, leaving_uw = _nodes(state, now_ns)
    away, away_uw = _away(state)
    away_held_uw = 0
    specs = {view.spec.node_id: view.spec for view in views}
    away_specs = {view.spec.node_id: view.spec for view in away}
    placed = state.placed()
    for job in placed:
        if job.state in KEEPS_STATES and job.target is not None:
            # It draws this power, or may at any moment, although no policy sees it.
            reserved_uw += (held_uw := kept_uw(job, specs, state.settings.dram_cap_uw))
            leaving_uw += held_uw if _leaves(job) else 0
        elif away and not _waits(state, job):
            away_held_uw += kept_uw(job, away_specs, state.settings.dram_cap_uw)
    return Snapshot(
        now_ns=now_ns,
        budget_uw=state.ledger.limit_uw,
        reserved_uw=reserved_uw,
        nodes=tuple(views),
        jobs=(),
        queues=tuple(state.queues.values()),
        reservations=tuple(state.reservations.values()),
        clearing=preemption.clearing(state, placed),
        leaving_uw=leaving_uw,
        away=tuple(away),
        away_uw=away_uw,
        away_held_uw=away_held_uw,
        ahead=tuple(BudgetAhead(*one) for one in budget_events.ahead(state, now_ns)),
        origin_s=state.origin_s,
    )


def _nodes(state: State, now_ns: int) -> tuple[list[NodeView], int, int]:
    """Return the nodes of a plan, the power reserved beside them, and its part for boots.

    A boot needs its power for its time only. So this part counts as that of ending jobs does, and
    delays no planned start after the boot.
    """
    views: list[NodeView] = []
    late: list[tuple[int, NodeView]] = []
    reserved_uw = boots_uw = outside_uw = 0
    waiting = decided_sleep.waiting_for_boots(state)
    kept = decided_sleep.kept_awake(state, now_ns, waiting)
    boot_ns = decided_sleep.expected_boot_ns(state)
    for node in state.nodes.values():
        coming = decided_sleep.comes(state, node)
        if node.spec is not None and (coming or _planned(state, node)):
            there = state.on_node(node.node_id)
            leaving = _leaving(node, there) if there else ()
            blocked = _blocked(node, there, opens=coming)
            view = _node_view(state, node, node.spec, blocked, leaving)
            seen = decided_sleep.shown(state, node, node.spec, () if coming else kept, waiting)
            if seen is not node.spec:
                view = replace(view, spec=seen, fixed_uw=state.settings.sleep.asleep_uw)
            if coming:
                boots_uw += decided_sleep.coming_reserve_uw(state, node, view, waiting)
                late.append((decided_sleep.up_from_ns(state, node, now_ns, boot_ns), view))
            else:
                views.append(view)
        elif node.node_id in state.ledger.accounts:
            reserved_uw += _charge_uw(state, node)
        elif node.awaits_room and node.spec is not None:
            # It waits for admission: its power is reserved, so that the next plan makes room.
            fixed = node_fixed_uw(node, node.spec, state.settings.dram_cap_uw)
            reserved_uw += fixed
        else:
            outside_uw += counted_uw(node)
    # Jobs get nodes in this order: nodes that are awake come first, then those that are up first.
    late.sort(key=lambda one: one[0])
    reserved_uw += boots_uw + max(outside_uw - state.accepted_outside_uw, 0)
    return [*views, *(view for _, view in late)], reserved_uw, boots_uw


def _away(state: State) -> tuple[list[NodeView], int]:
    """Return silent nodes whose leases may still hold, and their charge."""
    views: list[NodeView] = []
    away_uw = 0
    for node in state.nodes.values():
        if node.state is not NodeState.SILENT or node.node_id not in state.ledger.accounts:
            continue
        if decided_sleep.comes(state, node):
            continue
        if (
            node.spec is not None
            and node.duty is Duty.SERVING
            and not (node.dead_zones or node.fault)
        ):
            there = state.on_node(node.node_id)
            blocked = _blocked(node, there)
            free = Share(node_id=node.node_id, cpus=blocked - _kept(node, there))
            leaving = (free,) if free.cpus else ()
            views.append(_node_view(state, node, node.spec, blocked, leaving))
            away_uw += _charge_uw(state, node)
    return views, away_uw


def _node_view(
    state: State, node: Node, spec: NodeSpec, blocked: CpuSet, leaving: tuple[Share, ...]
) -> NodeView:
    held_bytes, held_gpus = blocked_amounts(state, node)
    return NodeView(
        spec=spec,
        fixed_uw=node_fixed_uw(node, spec, state.settings.dram_cap_uw),
        blocked=blocked,
        blocked_bytes=held_bytes,
        blocked_gpus=held_gpus,
        features=node.all_features,
        dram_cap_uw=state.settings.dram_cap_uw,
        leaving=leaving,
    )


def _charge_uw(state: State, node: Node) -> int:
    if node.dark:
        return sleep.reserve_uw(state, node)
    account = state.ledger.accounts[node.node_id]
    # Nothing asks for another plan when the caps that a lost node held no longer count. The caps
    # of this plan wait for the room.
    lost = node.state is NodeState.DOWN
    charge_uw = account.settled_uw if lost else account.charge_uw
    return max(charge_uw, reserve_uw(state, node))


def _planned(state: State, node: Node) -> bool:
    """Whether policies see a node: it obeys, and accepts new jobs or still has some."""
    if not node.usable or node.dead_zones:
        return False
    return node.takes_jobs or bool(jobs_there(state, node))


def _blocked(node: Node, there: Sequence[Job], *, opens: bool = False) -> CpuSet:
    """Return the blocked cores of a node.

    They are cores of ending jobs and of processes unknown to the journal. If the node accepts no
    new jobs, all cores are blocked except those of the jobs that run ``there``. It ``opens`` if it
    will accept jobs after its boot.
    """
    if not there and not node.foreign and node.takes_jobs:
        return NO_CORES  # The case of most nodes, in every round.
    cpus, running = CpuSet(), CpuSet()
    for held in node.foreign.values():
        cpus |= held
    for job in there:
        cpus |= _kept_next(job, node)
        if node.node_id not in job.ranks:
            continue
        if job.state in KEEPS_STATES:
            cpus |= job.ranks[node.node_id].occupied
        elif job.target is not None:
            running |= job.target.on(node.node_id)
    if not (node.takes_jobs or opens) and node.spec is not None:
        cpus |= node.spec.cpus - running
    return cpus


def _kept(node: Node, there: Sequence[Job]) -> CpuSet:
    """Return the cores that stay occupied when the node is back and its ending jobs have ended."""
    cpus = CpuSet()
    for held in node.foreign.values():
        cpus |= held
    for job in there:
        cpus |= _kept_next(job, node)
        if job.state in KEEPS_STATES and not _leaves(job) and node.node_id in job.ranks:
            cpus |= job.ranks[node.node_id].occupied
    return cpus


def _leaving(node: Node, there: Sequence[Job]) -> tuple[Share, ...]:
    """Return the shares of a node that become free at the end of ending jobs."""
    if not node.takes_jobs:
        return ()
    return tuple(
        Share(
            node_id=node.node_id,
            cpus=rank.occupied,
            memory_bytes=rank.memory_bytes,
            gpus=rank.gpus,
        )
        for job in there
        if _leaves(job) and (rank := job.ranks.get(node.node_id)) is not None and rank.occupied
    )


def _leaves(job: Job) -> bool:
    """Whether a job is ending and has no next assignment."""
    return job.state is JobState.ENDING and job.following is None


def _kept_next(job: Job, node: Node) -> CpuSet:
    """Return the cores reserved for the next attempt of a job that is restarted."""
    wanted = job.following.on(node.node_id) if job.following else CpuSet()
    return node.spec.cpus if wanted and job.spec.exclusive and node.spec else wanted


def _waits(state: State, job: Job) -> bool:
    """Whether a job waits. An accepted start without a launch counts, as it may still move."""
    return job.state is JobState.PENDING or not (job.ranks or firm(state, job))


def serial_of(state: State, job: Job) -> int:
    """Return the measured serial share of a job, in ppm; -1 = not measured."""
    if not job.speeds:
        return NOT_MEASURED
    cores = job.spec.size_max
    if job.spec.unit is SizeUnit.NODES:
        specs = [state.nodes[node_id].spec for node_id in job.ranks]
        cores = sum(len(spec.cpus) for spec in specs if spec is not None)
    return measured_serial_ppm(job.speeds, job.attempt, cores)


def _job_view(state: State, job: Job, now_ns: int) -> JobView:
    waits = _waits(state, job)
    nodes = [state.nodes[rank.node_id] for rank in job.ranks.values() if not rank.resident]
    movable = job.state is JobState.RUNNING and all(
        node.takes_jobs and not node.dead_zones for node in nodes
    )
    planned_ns, done = run_time_predictions.planned(state, job, now_ns)
    queue = state.queues.get(job.spec.queue)
    began_ns = job.started_ns + job.paused_ns - (job.ran_ns if job.started_ns >= 0 else 0)
    if decided_sleep.waits_for_boot(state, job):
        began_ns = decided_sleep.awake_from_ns(state, job, now_ns)
    return JobView(
        job_id=job.job_id,
        spec=fair_share.weighted(state, job, job.planned_spec) if waits else job.planned_spec,
        submitted_ns=max(job.submitted_ns, job.freed_ns),
        current=None if waits else job.target,
        done=done,
        started_ns=began_ns,
        resized_ns=job.resized_ns,
        profile=state.profile_of(job),
        wanted=job.wanted,
        wanted_ns=job.wanted_ns,
        over_ns=run_time_predictions.beyond_ns(job, now_ns),
        movable=movable,
        nodes_may_change=movable and (bool(job.reach) or (job.restarted and not immovable(job))),
        reach=job.reach,
        resize_ns=expected_ns(state.restarts, job.spec) if job.resizable else 0,
        restart_ns=learnt_ns(state.restarts, job.spec, ResizeMode.RESTART),
        size_asked=job.size_asked,
        preemptable=not waits and not preemption.victim_refusal(job),
        yields_to=job.yields_to if waits and preemption.yields(state, job) else NOBODY,
        promise=job.promise if waits else None,
        planned_ns=planned_ns,
        waits=queue.waits if queue is not None else NO_WAITS,
        serial_ppm=serial_of(state, job),
        training=training_of(state, job),
    )
