"""The core's state as messages for people and programs."""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.adapters.audit_trail import AuditEntry
from wattfold.coordinator.adapters.budgets import announced_message
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.level_effects import add_levels
from wattfold.coordinator.adapters.map_views import add_map
from wattfold.coordinator.adapters.node_views import (
    add_amounts,
    add_duty,
    add_outside,
    add_reservations,
)
from wattfold.coordinator.adapters.observations import JobSample, NodeSample, Observations
from wattfold.coordinator.adapters.submissions import KINDS, MODES, SHARINGS, SPREADS, UNITS
from wattfold.coordinator.core.attempt import Attempt
from wattfold.coordinator.core.job import UNKNOWN_UID, Job, JobSpec, JobState, ResizeMode
from wattfold.coordinator.core.node import Node, NodeState
from wattfold.coordinator.core.rank import RankEnd
from wattfold.coordinator.core.resize_cost import expected_ns
from wattfold.coordinator.core.restart import charged
from wattfold.coordinator.core.snapshot import serial_of
from wattfold.coordinator.core.speeds import NOT_MEASURED
from wattfold.coordinator.core.state import State
from wattfold.coordinator.models.amdahl import half_speed
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1.node_agent_pb2 import FrequencyPowerModel

_STATES: dict[JobState, pb.JobState] = {
    state: getattr(pb, f"JOB_STATE_{state.name}") for state in JobState
}
_NODE_STATES: dict[NodeState, pb.NodeState] = {
    state: getattr(pb, f"NODE_STATE_{state.name}") for state in NodeState
}
_KINDS = {kind: number for number, kind in KINDS.items() if number}
_UNITS = {unit: number for number, unit in UNITS.items() if number}
_MODES = {mode: number for number, mode in MODES.items() if number}
_SPREADS = {spread: number for number, spread in SPREADS.items() if number}
_SHARINGS = {sharing: number for number, sharing in SHARINGS.items()}


def job_state(state: JobState) -> pb.JobState:
    """The wire value of a state."""
    return _STATES[state]


def spec_message(spec: JobSpec, clock: Clock) -> pb.JobSpec:
    """A submission as it was taken, without its environment: that is nobody's to list."""
    return pb.JobSpec(
        name=spec.name,
        app=spec.app,
        argv=spec.argv,
        cwd=spec.cwd,
        stdout_path=spec.stdout_path,
        stderr_path=spec.stderr_path,
        kind=_KINDS[spec.kind],
        unit=_UNITS[spec.unit],
        size_min=spec.size_min,
        size_max=spec.size_max,
        time_ns=spec.time_ns,
        priority=spec.priority,
        mode=_MODES[spec.mode],
        tasks_per_node=spec.tasks_per_node,
        own_launcher=spec.own_launcher,
        mode_source=spec.mode_source,
        exclusive=spec.exclusive,
        cap_uw=spec.cap_uw,
        predicted_uw=spec.predicted_uw,
        dram_cap_uw=spec.levels.dram_uw,
        gpu_cap_uw=spec.levels.gpu_uw,
        limit_ns=spec.limit_ns,
        memory_bytes=spec.memory_bytes,
        gpus=spec.gpus,
        features=spec.features,
        among=spec.among,
        due_at_s=clock.wall_s(spec.due_ns),
        weight=spec.weight,
        queue=spec.queue,
        reservation=spec.reservation,
        preemptable=spec.preemptable,
        sharing=_SHARINGS[spec.sharing],
        unit_cores=spec.unit_cores,
        spread=_SPREADS[spec.spread] if spec.unit_cores else pb.UNIT_SPREAD_UNSPECIFIED,
        requeue_max=spec.requeue_max,
        restartable=spec.restarts,
        snapshot_dir=spec.snapshot_dir,
        snapshot_signal=spec.snapshot_signal,
        snapshot_grace_ns=spec.snapshot_grace_ns,
        epochs=spec.epochs,
    )


def job_message(job: Job, seen: Observations, clock: Clock, now_ns: int) -> pb.Job:
    """A job with what was measured of it, and its share done by ``now_ns``."""
    message = job_without_spec(job, seen, clock, now_ns)
    message.spec.CopyFrom(spec_message(job.spec, clock))
    return message


def job_without_spec(job: Job, seen: Observations, clock: Clock, now_ns: int) -> pb.Job:
    """What changes of `job_message`: a submission stays as it was taken."""
    done, over_ns = job.done_by(now_ns), job.over_ns(now_ns)
    samples = seen.of_job(job.job_id)
    # Processes that have ended are in the journal, the others in the newest telemetry.
    over = {rank.node_id for rank in job.ranks.values() if rank.end}
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    # Of an earlier attempt, a node that was given up may have told last.
    alive = job.ranks.keys() - over
    running = [(node_id, s) for node_id, s in seen.samples_of_job(job.job_id) if node_id in alive]
    uses: list[RankEnd | JobSample | Attempt] = [*job.attempts, *ends, *(s for _, s in running)]
    total_s = job.target.expected_total_s if job.target else 0.0
    message = pb.Job(
        job_id=job.job_id,
        state=_STATES[job.state],
        submitted_at_s=clock.wall_s(job.submitted_ns),
        started_at_s=clock.wall_s(job.started_ns),
        ended_at_s=clock.wall_s(job.ended_ns),
        size=job.target.size if job.target else 0,
        cap_uw=job.target.cap_uw if job.target else 0,
        dram_cap_uw=job.target.levels.dram_uw if job.target else 0,
        gpu_cap_uw=job.target.levels.gpu_uw if job.target else 0,
        exit_code=job.exit_code,
        message=job.message,
        resizes=job.resizes,
        energy_uj=sum(use.energy_uj for use in uses),
        idle_energy_uj=sum(use.idle_energy_uj for use in uses),
        gpu_energy_uj=sum(use.gpu_energy_uj for use in uses),
        cpu_ns=sum(use.cpu_ns for use in uses),
        core_ns=sum(use.core_ns for use in uses),
        residual_cpu_ns=sum(use.residual_cpu_ns for use in uses),
        residual_alarm=any(s.residual_alarm for s in samples),
        threads=sum(s.threads for s in samples),
        runnable_threads=sum(s.runnable for s in samples),
        excess_runnable_ns=sum(s.excess_runnable_ns for s in samples),
        voluntary_switches=sum(s.voluntary_switches for s in samples),
        involuntary_switches=sum(s.involuntary_switches for s in samples),
        memory_bytes=sum(s.memory_bytes for s in samples),
        memory_bytes_max=sum(s.memory_bytes_max for s in samples),
        done=done,
        remaining_s=0.0 if over_ns else total_s * (1 - done),
        over_s=over_ns / 1e9,
        reason=job.reason,
        team_size=max((s.team_size for s in samples), default=0),
        confined=any(rank.confined for rank in job.ranks.values()),
        progress=_progress(samples),
        phase=next((s.phase for s in samples if s.phase), ""),
        cores_wanted=sum(s.cores_wanted for s in samples),
        shim_message=next((s.shim_message for s in samples if s.shim_message), ""),
        user=job.spec.user,
        attempt=job.attempt,
        attempts=[_attempt(attempt, clock) for attempt in job.attempts],
        suspended_s=job.suspended_for_ns(now_ns) / 1e9,
        size_ordered=job.size_asked,
        next_size=_next_size(job),
        expected_start_at_s=_expected_start_s(job, clock),
        start_promised=job.state is JobState.PENDING and job.start_promised,
        epochs_saved=job.epochs_saved,
        epoch_s=(max((s.epoch_ns for _, s in running), default=0) or job.epoch_mean_ns) / 1e9,
        epochs_timed=job.epochs_timed,
    )
    if job.spec.uid != UNKNOWN_UID:
        message.uid = job.spec.uid
    for speed in job.speeds:
        message.speeds.add(
            cores=speed.cores,
            cap_uw=speed.cap_uw,
            rate_per_s=speed.rate,
            seen_s=speed.seen_ns / 1e9,
        )
    add_map(message, job, seen.samples_of_job(job.job_id))
    if not job.final:
        message.message = notes(job, seen.samples_of_job(job.job_id))
    for rank in job.ranks.values():
        message.shares.add(
            node_id=rank.node_id,
            cpus=str(rank.held),
            memory_bytes=rank.memory_bytes,
            gpus=rank.gpus,
            resident=rank.resident,
        )
    for node_id, found in seen.samples_of_job(job.job_id):
        message.residual.extend(residuals(node_id, job.job_id, found))
    for node_id, sample in running:
        _add_gpus(message, node_id, sample)
    return message


def add_resizing(message: pb.Job, state: State, job: Job) -> None:
    """What another size, or a restart at all, is expected to cost a job to which it may happen, and
    what it loses on fewer cores, where that was seen."""
    if job.resizable and not job.final:
        message.resize_s = expected_ns(state.restarts, job.spec) / NS_PER_S
    if charged(job) and not job.final:
        message.restart_s = expected_ns(state.restarts, job.spec, ResizeMode.RESTART) / NS_PER_S
    serial_ppm = serial_of(state, job)
    if serial_ppm != NOT_MEASURED:
        message.half_speed = half_speed(serial_ppm)


def _next_size(job: Job) -> int:
    """The size a job is on its way to by a restart."""
    if job.following is not None:
        return job.following.size
    return job.target.size if job.target and job.ordered_ns >= 0 else 0


def _expected_start_s(job: Job, clock: Clock) -> float:
    waits = job.state is JobState.PENDING and job.expected_start_ns
    return clock.wall_s(job.expected_start_ns) if waits else 0.0


def _attempt(attempt: Attempt, clock: Clock) -> pb.JobAttempt:
    return pb.JobAttempt(
        number=attempt.number,
        node_ids=attempt.nodes,
        started_at_s=clock.wall_s(attempt.started_ns),
        ended_at_s=clock.wall_s(attempt.ended_ns),
        why=attempt.why,
        cpu_ns=attempt.cpu_ns,
        core_ns=attempt.core_ns,
        energy_uj=attempt.energy_uj,
        idle_energy_uj=attempt.idle_energy_uj,
        residual_cpu_ns=attempt.residual_cpu_ns,
        gpu_energy_uj=attempt.gpu_energy_uj,
    )


def _add_gpus(message: pb.Job, node_id: NodeId, sample: JobSample) -> None:
    """What the drivers tell of the GPUs it has on a node."""
    for gpu in sample.gpus:
        message.gpus.add(
            node_id=node_id,
            gpu=gpu.gpu,
            energy_uj=gpu.energy_uj,
            power_uw=gpu.power_uw,
            busy_percent=gpu.busy_percent,
            memory_bytes=gpu.memory_bytes,
        )


def notes(job: Job, samples: list[tuple[NodeId, JobSample]]) -> str:
    """What agents tell of a job that has not ended and that people should know of."""
    said = []
    for node_id, sample in samples:
        rank = job.ranks.get(node_id)
        if rank is None or rank.end is not None:
            continue
        if sample.processes_left:
            alive = f"{sample.processes_left} process{'es' * (sample.processes_left > 1)}"
            said.append(f"ending: {alive} still alive on {node_id}")
        if sample.stray_cpus:
            times = f"corrected {sample.stray_repairs} time{'s' * (sample.stray_repairs > 1)}"
            said.append(
                f"its threads bind themselves to CPUs {sample.stray_cpus} of {node_id}, {times}"
            )
    return "; ".join(said)


def residuals(node_id: NodeId, job_id: JobId, sample: JobSample) -> list[pb.Residual]:
    """Work of a job on cores of a node that it does not hold."""
    return [
        pb.Residual(
            node_id=node_id,
            job_id=job_id,
            cpu=core.cpu,
            cpu_ns=core.cpu_ns,
            load=core.load,
            alarm=sample.residual_alarm,
        )
        for core in sample.residual
    ]


def _progress(samples: list[JobSample]) -> common_pb2.Progress:
    return common_pb2.Progress(
        regions=sum(s.regions for s in samples),
        done=sum(s.done for s in samples),
        total=sum(s.total for s in samples),
    )


def _reasons(node: Node) -> str:
    """What there is to say of a node, and which of its zones draw more than their caps."""
    over = [
        f"{name} exceeds its cap and is charged with {w_from_uw(power):.1f} W"
        for name, power in sorted(node.not_held_uw.items())
    ]
    return "; ".join(filter(None, [node.message, *over]))


def node_message(state: State, node: Node, sample: NodeSample | None) -> pb.Node:
    """A node with its zones and who is on it."""
    account = state.ledger.accounts.get(node.node_id)
    message = pb.Node(
        node_id=node.node_id,
        address=node.address,
        state=_NODE_STATES[node.state],
        message=_reasons(node),
        committed_uw=account.charge_uw if account else 0,
        measured_uw=sample.power_uw if sample else 0,
        drift_count=sample.drift_count if sample else 0,
        power_source=_power_source(sample),
    )
    add_duty(message, state, node)
    add_reservations(message, state, node)
    for job_id, found in sample.jobs.items() if sample else ():
        message.residual.extend(r for r in residuals(node.node_id, job_id, found) if r.load > 0)
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None and rank.end is None:
            (message.resident_job_ids if rank.resident else message.job_ids).append(job.job_id)
    spec = node.spec
    if spec is None:
        return message
    free = spec.cpus - state.occupied(node.node_id) if node.takes_jobs else CpuSet()
    message.cpus, message.free_cpus = str(spec.cpus), str(free)
    add_amounts(message, state, node, spec)
    message.base_power_uw, message.emulated = spec.base_power_uw, spec.emulated
    message.mask_mechanism = spec.mask_mechanism
    message.throttle_mechanism = spec.throttle_mechanism
    message.sockets, message.numa_nodes = len(spec.topology.packages), len(spec.topology.numa_nodes)
    message.smt = spec.topology.smt
    message.isolated_cpus, message.offline_cpus = str(spec.isolated_cpus), str(spec.offline_cpus)
    if spec.curve is not None:
        message.model.CopyFrom(
            FrequencyPowerModel(
                a=spec.curve.a,
                b=spec.curve.b,
                c=spec.curve.c,
                f_low_ghz=spec.curve.f_low_ghz,
                f_high_ghz=spec.curve.f_high_ghz,
            ),
        )
    for zone in spec.zones:
        measured = sample.zones.get(zone.name) if sample else None
        held = account.zones.get(zone.name) if account else None
        message.zones.add(
            name=zone.name,
            cap_uw=held.confirmed_uw if held else node.read_uw.get(zone.name, 0),
            cap_uw_min=zone.cap_uw_min,
            cap_uw_max=zone.cap_uw_max,
            floor_uw=zone.floor_uw,
            power_uw=measured.power_uw if measured else 0,
            energy_uj=measured.energy_uj if measured else 0,
        )
    return message


def _power_source(sample: NodeSample | None) -> str:
    if sample is None or not any(zone.valid for zone in sample.meters.values()):
        return ""
    return "zones" if sample.platform is None else "psys"


def power_message(state: State, seen: Observations, clock: Clock, policy: str) -> pb.Power:
    """Budget, committed and measured power."""
    ledger = state.ledger
    pending_uw, pending_ns = _pending(state)
    message = pb.Power(
        budget_uw=ledger.budget_uw,
        committed_uw=ledger.committed_uw,
        measured_uw=seen.power_uw,
        committed_uw_peak=ledger.peak_uw,
        measured_uw_peak=seen.peak_uw,
        floor_uw=state.floor_uw(),
        pending_budget_uw=pending_uw,
        pending_deadline_s=clock.wall_s(pending_ns) if pending_ns else 0.0,
        energy_uj=seen.energy_uj,
        policy=policy,
        announced=[announced_message(state, one, clock) for one in state.announced],
    )
    known = [node.spec for node in state.nodes.values() if node.spec is not None]
    message.known_nodes = len(known)
    message.emulated_nodes = sum(spec.emulated for spec in known)
    add_outside(message, state)
    add_levels(message, state)
    return message


def _pending(state: State) -> tuple[int, int]:
    """A lower budget on its way and by when it is to be kept; zeros where there is none.

    One that is announced and prepared for is on its way where it is not kept yet.
    """
    ledger = state.ledger
    if ledger.over_deadline_ns:
        return ledger.budget_uw, ledger.over_deadline_ns
    if ledger.coming_uw and ledger.committed_uw > ledger.limit_uw:
        coming = [one for one in state.announced if one.budget_uw == ledger.coming_uw]
        return (ledger.coming_uw, coming[0].at_ns) if coming else (0, 0)
    return 0, 0


def audit_message(entry: AuditEntry) -> pb.AuditEntry:
    """A request as it was stored."""
    return pb.AuditEntry(
        time_s=entry.time_s,
        account=entry.account,
        uid=entry.uid,
        peer=entry.peer,
        action=entry.action,
        job_id=entry.job,
        node_id=entry.node,
        detail=entry.detail,
        outcome=entry.outcome,
        message=entry.message,
    )


def round_message(state: State) -> pb.PlanningRound:
    """The last planning round."""
    last = state.last_round
    if last is None:
        return pb.PlanningRound()
    return pb.PlanningRound(
        policy=last.policy,
        solver=last.solver,
        outcome=last.outcome,
        solve_ns=last.solve_ns,
        objective=last.objective,
        bound=last.bound,
        jobs=last.jobs,
        rounds=state.rounds,
    )
