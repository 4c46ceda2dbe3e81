"""Conversion between the agent's values and the messages of node_agent.proto. No decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import grpc

from wattfold.contract.ids import JobId, ZoneName
from wattfold.contract.os_text import utf8_text
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit
from wattfold.contract.topology import CpuPlace
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism
from wattfold.nodeagent.adapters.jobs.gpu_access import AccessMechanism
from wattfold.nodeagent.adapters.jobs.memory_limits import MemoryMechanism
from wattfold.nodeagent.adapters.shims.shim_server import ShimView
from wattfold.nodeagent.core import errors
from wattfold.nodeagent.core.caps import CapOutcome, CapRequest, CapStatus, ZoneKind
from wattfold.nodeagent.core.launch import LaunchOrder, ResizeMode
from wattfold.nodeagent.core.masks import parse_cpus
from wattfold.nodeagent.core.steps import StepNode
from wattfold.nodeagent.service.jobs.charm_program import Processor
from wattfold.nodeagent.service.jobs.gpu_accounting import GpuReading
from wattfold.nodeagent.service.jobs.processor_maps import MapOutcome
from wattfold.nodeagent.service.jobs.records import Job, JobState, Placement, Saving
from wattfold.nodeagent.service.power.node_total import NodeTotal
from wattfold.nodeagent.service.power.zone_state import ZoneState
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

STATUS = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.WrongState: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Fenced: grpc.StatusCode.ABORTED,
    errors.UnknownJob: grpc.StatusCode.NOT_FOUND,
    errors.NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    errors.NoSpace: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Broken: grpc.StatusCode.INTERNAL,
}
_MODES = {
    common_pb2.RESIZE_MODE_FIXED: ResizeMode.FIXED,
    common_pb2.RESIZE_MODE_MASK: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_TEAM: ResizeMode.TEAM,
    common_pb2.RESIZE_MODE_MAP: ResizeMode.MAP,
}
_MODES_OUT = {mode: number for number, mode in _MODES.items()}
_KINDS = {
    ZoneKind.PACKAGE: pb.ZONE_KIND_PACKAGE,
    ZoneKind.DRAM: pb.ZONE_KIND_DRAM,
    ZoneKind.PSYS: pb.ZONE_KIND_PSYS,
    ZoneKind.GPU: pb.ZONE_KIND_GPU,
}
_CAP_STATUS = {
    CapStatus.OK: pb.CAP_STATUS_OK,
    CapStatus.BELOW_MINIMUM: pb.CAP_STATUS_BELOW_MINIMUM,
    CapStatus.ABOVE_MAXIMUM: pb.CAP_STATUS_ABOVE_MAXIMUM,
    CapStatus.DEVICE_ERROR: pb.CAP_STATUS_DEVICE_ERROR,
    CapStatus.UNKNOWN_ZONE: pb.CAP_STATUS_UNKNOWN_ZONE,
    CapStatus.NO_LEASE: pb.CAP_STATUS_NO_LEASE,
}
MASKS = {
    MaskMechanism.CPUSET_V1: pb.MASK_MECHANISM_CPUSET_V1,
    MaskMechanism.CPUSET_V2: pb.MASK_MECHANISM_CPUSET_V2,
    MaskMechanism.AFFINITY: pb.MASK_MECHANISM_AFFINITY,
}
MEMORY = {
    MemoryMechanism.CGROUP_V1: pb.MEMORY_MECHANISM_CGROUP_V1,
    MemoryMechanism.CGROUP_V2: pb.MEMORY_MECHANISM_CGROUP_V2,
    MemoryMechanism.WATCHED: pb.MEMORY_MECHANISM_WATCHED,
}
GPU_ACCESS = {
    AccessMechanism.CGROUP_V1: pb.GPU_ACCESS_CGROUP_V1,
    AccessMechanism.CGROUP_V2: pb.GPU_ACCESS_CGROUP_V2,
    AccessMechanism.TOLD: pb.GPU_ACCESS_TOLD,
}
_SAVINGS = {
    Saving.UNASKED: pb.SAVING_UNASKED,
    Saving.SAVED: pb.SAVING_SAVED,
    Saving.UNSAVED: pb.SAVING_UNSAVED,
    Saving.KILLED: pb.SAVING_KILLED,
}
_STATES = {
    JobState.STARTING: pb.PROCESS_STATE_RUNNING,
    JobState.RUNNING: pb.PROCESS_STATE_RUNNING,
    JobState.ENDED: pb.PROCESS_STATE_ENDED,
    JobState.LOST: pb.PROCESS_STATE_LOST,
}


def zone_message(state: ZoneState, original_uw: int) -> pb.PowerZone:
    """Return a zone of the inventory."""
    zone, limits = state.zone, state.zone.limits
    return pb.PowerZone(
        name=zone.name,
        kind=_KINDS[zone.kind],
        cap_uw_min=limits.cap_uw_min if limits else 0,
        cap_uw_max=state.most_uw,
        floor_uw=limits.floor_uw if limits else 0,
        cap_uw=state.cap_uw,
        window_ns=zone.window_ns,
        can_cap=not zone.cannot_cap,
        can_measure=not zone.cannot_measure,
        not_held_uw=state.over_uw,
        original_uw=original_uw,
        reason="; ".join(filter(None, [zone.cannot_cap, zone.cannot_measure])),
    )


def cpu_message(place: CpuPlace, core_id: int) -> pb.Cpu:
    """Return a CPU of the inventory."""
    return pb.Cpu(
        cpu=place.cpu,
        core=core_id,
        package=place.package,
        numa_node=place.numa_node,
        siblings=str(place.siblings),
    )


def cap_requests(request: pb.SetCapsRequest) -> list[CapRequest]:
    """Return the requested caps. Raises InvalidRequest for a zone named twice."""
    names = [cap.name for cap in request.caps]
    if len(set(names)) != len(names):
        raise errors.InvalidRequest(f"a zone is named twice: {', '.join(names)}")
    return [CapRequest(name=ZoneName(cap.name), cap_uw=cap.cap_uw) for cap in request.caps]


def cap_result(outcome: CapOutcome) -> pb.CapResult:
    """Return the answer for one cap."""
    return pb.CapResult(
        name=outcome.name,
        requested_uw=outcome.requested_uw,
        enforced_uw=outcome.enforced_uw,
        status=_CAP_STATUS[outcome.status],
        message=outcome.message,
        settles_in_ns=outcome.settles_in_ns,
        not_held_uw=outcome.not_held_uw,
    )


def zone_caps(states: Iterable[ZoneState]) -> list[pb.ZoneCap]:
    """Return the cap of every zone."""
    return [pb.ZoneCap(name=state.zone.name, cap_uw=state.cap_uw) for state in states]


def leave_response(states: Iterable[ZoneState], failed: Mapping[str, str]) -> pb.LeaveResponse:
    """Return the caps after the node has left, and the zones that could not be restored."""
    failures = [pb.ZoneFailure(name=name, reason=why) for name, why in failed.items()]
    return pb.LeaveResponse(caps=zone_caps(states), failures=failures)


def launch_order(request: pb.LaunchRequest) -> LaunchOrder:
    """Return the requested launch. Raises InvalidRequest."""
    mode = _MODES.get(request.mode)
    if mode is None:
        raise errors.InvalidRequest(f"job {request.job_id}: resize mode {request.mode} is unknown")
    cpus = parse_cpus(request.cpus, what=f"job {request.job_id}")
    try:
        argv = tuple(map(utf8_text, request.argv))
        env = {utf8_text(name): utf8_text(value) for name, value in request.env.items()}
        cwd, snapshot_dir = utf8_text(request.cwd), utf8_text(request.snapshot_dir)
        stdout_path, stderr_path = utf8_text(request.stdout_path), utf8_text(request.stderr_path)
    except ValueError as error:
        raise errors.InvalidRequest(f"job {request.job_id}: {error}") from None
    return LaunchOrder(
        job=JobId(request.job_id),
        argv=argv,
        env=env,
        cwd=cwd,
        stdout_path=stdout_path,
        stderr_path=stderr_path,
        cpus=cpus,
        mode=mode,
        launch_cpus=request.launch_cpus or len(cpus),
        rank=request.rank,
        ranks=request.ranks,
        user=request.user,
        tasks_per_node=request.tasks_per_node or 1,
        processor_map=request.processor_map,
        steps_only=request.steps_only,
        step_nodes=tuple(
            StepNode(node_id=node.node_id, address=node.address, cpus=node.cpus, tasks=node.tasks)
            for node in request.step_nodes
        ),
        step_key=request.step_key,
        memory_bytes=request.memory_bytes,
        gpus=tuple(request.gpus),
        uid=request.uid if request.HasField("uid") else None,
        umask=request.umask if request.HasField("umask") else UMASK_DEFAULT,
        limits=tuple(
            SoftLimit(name=limit.name, soft=limit.soft if limit.HasField("soft") else None)
            for limit in request.resource_limits
        ),
        attempt=request.attempt or 1,
        snapshot_dir=snapshot_dir,
        resident=request.resident,
        pes=request.pes,
        epochs=request.epochs,
    )


def process_info(job: Job, now_ns: int) -> pb.ProcessInfo:
    """Return a process, running or ended."""
    until_ns = now_ns if job.live else job.ended_ns
    info = pb.ProcessInfo(
        job_id=job.id,
        pid=job.pid,
        state=_STATES[job.state],
        exit_code=job.exit_code,
        signal=job.signal,
        cpus=str(job.cpus),
        elapsed_ns=max(0, until_ns - job.started_ns) if job.started_ns else 0,
        cpu_ns=job.cpu_ns,
        energy_uj=job.energy_uj,
        message=job.message,
        mode=_MODES_OUT[job.mode],
        residual_cpu_ns=job.residual.total_ns,
        core_ns=job.core_ns,
        idle_energy_uj=job.idle_energy_uj,
        processes_left=job.left if job.live else 0,
        attempt=job.attempt,
        suspended=job.live and job.suspended,
        saving=pb.SAVING_UNSPECIFIED if job.live else _SAVINGS[job.saving],
        snapshot_bytes=job.snapshot_bytes,
        resident=job.live and job.resident,
        gpu_energy_uj=job.gpu_energy_uj,
        command_digest=job.command_digest,
        adoption=_adoption(job),
    )
    if not job.live and job.report is not None:
        info.epochs_saved, info.epochs_timed = job.report.epoch, job.report.timed
        info.epoch_mean_ns = job.report.mean_ns
    return info


def job_usage(job: Job, view: ShimView, gpus: Iterable[GpuReading] = ()) -> pb.JobUsage:
    """Return the usage and reports of a running job."""
    mapped = job.mode is ResizeMode.MAP
    attached = job.placement.up if mapped else view.attached
    usage = pb.JobUsage(
        job_id=job.id,
        cpus=str(job.cpus),
        cpu_ns=job.cpu_ns,
        energy_uj=job.energy_uj,
        threads=job.threads,
        residual_cpu_ns=job.residual.total_ns,
        shim=shim_state(attached=attached, confined=job.confined),
        progress=common_pb2.Progress(regions=view.regions, done=view.done, total=view.total),
        team_size=view.team_size,
        memory_bytes=job.memory_bytes,
        residual_cores=[
            pb.CoreResidual(cpu=cpu, cpu_ns=ns, load=job.residual.load(cpu))
            for cpu, ns in sorted(job.residual.by_cpu.items())
        ],
        residual_alarm=job.residual.alarm,
        runnable_threads=job.runnable,
        excess_runnable_ns=job.excess_runnable_ns,
        voluntary_switches=job.voluntary_switches,
        involuntary_switches=job.involuntary_switches,
        memory_bytes_max=job.memory_bytes_max,
        core_ns=job.core_ns,
        idle_energy_uj=job.idle_energy_uj,
        phase=view.phase,
        cores_wanted=view.cores_wanted,
        tasks=job.tasks_found,
        shim_message=view.message,
        processes_left=job.left,
        stray_cpus=str(job.strays),
        stray_repairs=job.stray_repairs,
        resident=job.resident,
        gpu_uses=[_gpu_use(gpu) for gpu in gpus],
        gpu_energy_uj=job.gpu_energy_uj,
        adoption=_adoption(job),
    )
    if job.report is not None:
        usage.epochs_saved, usage.epoch_ns = job.report.epoch, job.report.epoch_ns
    if mapped:
        _add_placement(usage, job.placement)
    return usage


def _adoption(job: Job) -> pb.Adoption | None:
    """Return what the owner of an adopted job has told; None for other jobs."""
    if not job.owner:
        return None
    return pb.Adoption(
        owner=job.owner,
        allocated_cpus=str(job.allocation),
        steps=job.steps,
        mode=_MODES_OUT[job.mode],
        uid=job.uid,
        app=job.app,
    )


def _gpu_use(reading: GpuReading) -> pb.GpuUse:
    return pb.GpuUse(
        gpu=reading.gpu,
        energy_uj=reading.energy_uj,
        power_uw=reading.power_uw,
        busy_percent=reading.busy_percent,
        memory_bytes=reading.memory_bytes,
        age_ns=reading.age_ns,
    )


def _add_placement(usage: pb.JobUsage, placement: Placement) -> None:
    usage.processor_map = placement.map
    usage.map_applied = placement.applied
    usage.map_message = placement.message
    usage.processors.extend(_element(processor) for processor in placement.processors)
    usage.surplus_processes = placement.surplus


def node_power_message(total: NodeTotal, interval_ns: int) -> pb.NodePower:
    """Return the power and energy of the node."""
    source = pb.NodePower.SOURCE_PSYS if total.by_psys else pb.NodePower.SOURCE_ZONES
    return pb.NodePower(
        source=source, power_uw=total.power_uw(interval_ns), energy_uj=total.energy_uj
    )


def shim_state(*, attached: bool, confined: bool) -> pb.ShimState:
    """Return whether a job's shim is absent, attached, or confined."""
    if not attached:
        return pb.SHIM_STATE_ABSENT
    return pb.SHIM_STATE_CONFINED if confined else pb.SHIM_STATE_ATTACHED


def map_response(outcome: MapOutcome) -> pb.SetProcessorMapResponse:
    """Return the verified state of a processor map."""
    return pb.SetProcessorMapResponse(
        map=outcome.map,
        applied=outcome.applied,
        applied_in_ns=outcome.applied_in_ns,
        elements=[_element(processor) for processor in outcome.processors],
        surplus_processes=outcome.surplus,
    )


def _element(processor: Processor) -> pb.ProcessorElement:
    element = pb.ProcessorElement(pe=processor.pe, enabled=processor.enabled)
    if processor.objects is not None:
        element.objects = processor.objects
    if processor.process is not None:
        element.pid = processor.process.pid
        element.cpu_ns = processor.process.cpu_ns
        element.memory_bytes = processor.process.memory_bytes
    return element
