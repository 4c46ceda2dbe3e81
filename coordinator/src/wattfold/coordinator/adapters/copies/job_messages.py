"""Jobs as messages for people and programs."""

from __future__ import annotations

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.map_views import add_map
from wattfold.coordinator.adapters.learning.observations import JobSample, Observations
from wattfold.coordinator.adapters.requests.wire_enums import (
    KINDS,
    MAIL_EVENTS,
    MODES,
    SHARINGS,
    SPREADS,
    UNITS,
)
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Attempt
from wattfold.coordinator.core.model.jobs.conditions import DependencyState
from wattfold.coordinator.core.model.jobs.rank import RankEnd
from wattfold.coordinator.core.model.jobs.resize_cost import expected_ns, learnt_ns
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID, JobSpec, ResizeMode
from wattfold.coordinator.core.model.jobs.speeds import NOT_MEASURED
from wattfold.coordinator.core.rules.jobs.restart import charged
from wattfold.coordinator.core.rules.jobs.start_conditions import dependency_state
from wattfold.coordinator.core.rules.snapshot import serial_of
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.amdahl import half_speed
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

_STATES: dict[JobState, pb.JobState] = {
    state: getattr(pb, f"JOB_STATE_{state.name}")
    for state in JobState
    if state is not JobState.WAITING
}
# Clients know that pending jobs wait, and the reason tells for what.
_STATES[JobState.WAITING] = pb.JOB_STATE_PENDING
_DEPENDENCIES: dict[DependencyState, pb.DependencyState] = {
    state: getattr(pb, f"DEPENDENCY_STATE_{state.name}") for state in DependencyState
}
_KINDS = {kind: number for number, kind in KINDS.items() if number}
_UNITS = {unit: number for number, unit in UNITS.items() if number}
_MODES = {mode: number for number, mode in MODES.items() if number}
_SPREADS = {spread: number for number, spread in SPREADS.items() if number}
_MAIL_EVENTS = {event: number for number, event in MAIL_EVENTS.items()}
_SHARINGS = {sharing: number for number, sharing in SHARINGS.items()}


def job_state(state: JobState) -> pb.JobState:
    """Return the wire value of a state."""
    return _STATES[state]


def spec_message(spec: JobSpec, clock: Clock) -> pb.JobSpec:
    """Return a submission as accepted, without its environment, which no list shows."""
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
        account=spec.account,
        reservation=spec.reservation,
        preemptable=spec.preemptable,
        sharing=_SHARINGS[spec.sharing],
        unit_cores=spec.unit_cores,
        spread=_SPREADS[spec.spread] if spec.unit_cores else pb.UNIT_SPREAD_UNSPECIFIED,
        requeue_max=spec.requeue_max,
        requeue_on_failure=spec.requeue_on_failure,
        restartable=spec.restarts,
        snapshot_dir=spec.snapshot_dir,
        snapshot_signal=spec.snapshot_signal,
        snapshot_grace_ns=spec.snapshot_grace_ns,
        epochs=spec.epochs,
        mail=[_MAIL_EVENTS[event] for event in spec.mail.events],
        mail_to=spec.mail.address,
    )


def job_message(job: Job, seen: Observations, clock: Clock, now_ns: int) -> pb.Job:
    """Return a job with its measurements, and its completed share at ``now_ns``."""
    message = job_without_spec(job, seen, clock, now_ns)
    message.spec.CopyFrom(spec_message(job.spec, clock))
    return message


def job_without_spec(job: Job, seen: Observations, clock: Clock, now_ns: int) -> pb.Job:
    """Return `job_message` without the submission, which never changes."""
    done, over_ns = job.done_by(now_ns), job.over_ns(now_ns)
    samples = seen.of_job(job.job_id)
    running = _running(job, seen)
    uses = uses_of(job, seen)
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
        remaining_s=0.0 if over_ns else _remaining_s(job, total_s * (1 - done), now_ns),
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
    if job.allocation is not None:
        message.manager, message.manager_job_id = job.spec.manager, job.allocation.seen.label
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


def _running(job: Job, seen: Observations) -> list[tuple[NodeId, JobSample]]:
    """Return the newest telemetry of the running processes of a job, by node."""
    # The last telemetry of a node that was given up may be about an earlier attempt.
    alive = {rank.node_id for rank in job.ranks.values() if not rank.end}
    return [(node_id, s) for node_id, s in seen.samples_of_job(job.job_id) if node_id in alive]


def uses_of(job: Job, seen: Observations) -> list[RankEnd | JobSample | Attempt]:
    """Return the usage of a job: of its attempts, its ended processes and its running processes."""
    # The journal has the usage of ended processes; the newest telemetry has the usage of the
    # others.
    ends = [end for rank in job.ranks.values() if (end := rank.end or rank.spent)]
    return [*job.attempts, *ends, *(sample for _, sample in _running(job, seen))]


def add_resizing(message: pb.Job, state: State, job: Job) -> None:
    """Add the expected costs of a resize and of a restart, and the loss of speed on fewer cores.

    Each value is added only for a job that it can affect; the loss of speed only if it was
    measured.
    """
    if job.resizable and not job.final:
        message.resize_s = expected_ns(state.restarts, job.spec) / NS_PER_S
    if charged(job) and not job.final:
        # Restarts that were never measured are left out: each policy assumes another value.
        message.restart_s = (
            learnt_ns(state.restarts, job.spec, ResizeMode.RESTART) or 0
        ) / NS_PER_S
    serial_ppm = serial_of(state, job)
    if serial_ppm != NOT_MEASURED:
        message.half_speed = half_speed(serial_ppm)


def add_conditions(message: pb.Job, state: State, job: Job, clock: Clock) -> None:
    """Add the conditions of the start of a job."""
    started = job.started_ns >= 0 or job.attempt > 1
    message.begin_at_s = clock.wall_s(job.conditions.begin_ns)
    for one in job.conditions.after:
        found = DependencyState.MET if started else dependency_state(state, one)
        message.after.add(job_id=one.job_id, success=one.success, state=_DEPENDENCIES[found])


def _next_size(job: Job) -> int:
    """Return the size that a restart is leading to; 0 = no restart in progress."""
    if job.following is not None:
        return job.following.size
    return job.target.size if job.target and job.ordered_ns >= 0 else 0


def _remaining_s(job: Job, expected_s: float, now_ns: int) -> float:
    """Return the time to the expected end, or to the time limit if that is nearer."""
    if job.limit_at_ns < 0:
        return expected_s
    return min(expected_s, max(job.limit_at_ns - now_ns, 0) / NS_PER_S)


def _expected_start_s(job: Job, clock: Clock) -> float:
    waits = job.state in (JobState.PENDING, JobState.WAITING) and job.expected_start_ns
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
    """Add the driver's measurements of a job's GPUs on a node."""
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
    """Return the agents' notes for people about a job that has not ended."""
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
    """Return the residual work of a job on cores of a node that it does not hold."""
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
