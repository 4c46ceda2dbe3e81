"""Conversion between the agents' messages and the core's types, with checks of all input."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

import grpc.aio

from wattfold.contract.cpuset import MAX_CPU
from wattfold.contract.ids import JobId, ZoneName, valid_name
from wattfold.contract.plausible import power_uw_max
from wattfold.contract.processor_map import PES_MAX, digits
from wattfold.contract.refusals import NODE_FAULT
from wattfold.contract.units import UW_PER_W
from wattfold.coordinator.adapters.agents.inventories import (
    CHARGED,
    MessageError,
    cpus_of,
    enum_name,
)
from wattfold.coordinator.adapters.learning.observations import (
    CoreResidual,
    GpuSample,
    JobSample,
    MapSample,
    NodeSample,
    PeSample,
    ZoneSample,
)
from wattfold.coordinator.adapters.requests.wire_enums import MODES
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.v1 import node_agent_pb2 as pb

OFFSET_WINDOW_NS = 60_000_000_000
_SAVINGS = {
    pb.SAVING_UNASKED: Saving.UNASKED,
    pb.SAVING_SAVED: Saving.SAVED,
    pb.SAVING_UNSAVED: Saving.UNSAVED,
    pb.SAVING_KILLED: Saving.KILLED,
}


def readings_of_inventory(message: pb.Inventory) -> tuple[reports.ZoneReading, ...]:
    """Caps enforced now. Of a node that has left: what its zones may draw, as far as is known."""
    return tuple(
        reports.ZoneReading(
            zone=ZoneName(zone.name),
            cap_uw=max(zone.cap_uw, _original_uw(zone)) if message.left else zone.cap_uw,
            not_held_uw=zone.not_held_uw,
            original_uw=zone.original_uw,
        )
        for zone in message.zones
        if zone.kind in CHARGED and zone.can_cap
    )


def _original_uw(zone: pb.PowerZone) -> int:
    return zone.original_uw or zone.cap_uw_max


def readings_of_leave(message: pb.LeaveResponse) -> tuple[reports.ZoneReading, ...]:
    """Return the caps after a node was released, and the zones that could not be restored."""
    failed = {failure.name: failure.reason or "no reason given" for failure in message.failures}
    caps_uw = {cap.name: cap.cap_uw for cap in message.caps}
    return tuple(
        reports.ZoneReading(
            zone=ZoneName(name), cap_uw=caps_uw.get(name, 0), error=failed.get(name, "")
        )
        for name in dict.fromkeys((*caps_uw, *failed))
    )


def readings_of_caps(caps: Iterable[pb.ZoneCap]) -> tuple[reports.ZoneReading, ...]:
    """Return the enforced caps, from the answer to a lease."""
    return tuple(reports.ZoneReading(zone=ZoneName(cap.name), cap_uw=cap.cap_uw) for cap in caps)


def readings_of_results(results: Iterable[pb.CapResult]) -> tuple[reports.ZoneReading, ...]:
    """Return the caps after a command, and the zones that refused it."""
    return tuple(
        reports.ZoneReading(
            zone=ZoneName(result.name),
            cap_uw=result.enforced_uw,
            settles_in_ns=result.settles_in_ns,
            not_held_uw=result.not_held_uw,
            error="" if result.status == pb.CAP_STATUS_OK else _cap_error(result),
        )
        for result in results
    )


def _cap_error(result: pb.CapResult) -> str:
    status = enum_name(pb.CapStatus, result.status).removeprefix("CAP_STATUS_").lower()
    asked, holds = result.requested_uw / 1e6, result.enforced_uw / 1e6
    return f"{status}: requested {asked:.3f} W, {holds:.3f} W is in force. {result.message}".strip()


def of_the_node(error: grpc.aio.AioRpcError) -> bool:
    """Whether an agent refused a command because of a fault of its node."""
    return NODE_FAULT in tuple(error.trailing_metadata() or ())


def processes(message: pb.ListProcessesResponse) -> tuple[reports.ProcessReading, ...]:
    """The processes of a node. Raises MessageError if two of them have a job or a core in common.

    An agent has one record of a job, and holds the jobs to different cores.
    """
    readings = tuple(process(entry) for entry in message.processes)
    owners: dict[int, JobId] = {}
    job_ids = set[JobId]()
    for reading in readings:
        if reading.job_id in job_ids:
            raise MessageError(f"job {reading.job_id} is listed twice among its processes")
        job_ids.add(reading.job_id)
        for cpu in reading.cpus if reading.running and not reading.resident else ():
            if cpu in owners:
                raise MessageError(
                    f"core {cpu} is held by both job {owners[cpu]} and job {reading.job_id}"
                )
            owners[cpu] = reading.job_id
    return readings


def process(message: pb.ProcessInfo) -> reports.ProcessReading:
    """A process as the agent sees it."""
    code = message.exit_code
    if message.signal and not code:
        code = 128 + message.signal
    lost = message.state == pb.PROCESS_STATE_LOST
    return reports.ProcessReading(
        job_id=JobId(message.job_id),
        running=message.state == pb.PROCESS_STATE_RUNNING,
        pid=message.pid,
        cpus=cpus_of(message.cpus),
        exit_code=code,
        lost=lost,
        cpu_ns=message.cpu_ns,
        energy_uj=message.energy_uj,
        message=message.message,
        residual_cpu_ns=message.residual_cpu_ns,
        core_ns=message.core_ns,
        idle_energy_uj=message.idle_energy_uj,
        attempt=message.attempt,
        suspended=message.suspended,
        saving=_SAVINGS.get(message.saving, Saving.UNKNOWN),
        snapshot_bytes=message.snapshot_bytes,
        epochs_saved=message.epochs_saved if message.HasField("epochs_saved") else -1,
        epochs_timed=message.epochs_timed,
        epoch_mean_ns=message.epoch_mean_ns,
        resident=message.resident,
        gpu_energy_uj=message.gpu_energy_uj,
        ran_ns=message.elapsed_ns,
        command_digest=message.command_digest,
        adopted=_adopted(message) if message.state == pb.PROCESS_STATE_RUNNING else None,
    )


def adopted(
    entries: Iterable[pb.JobUsage] | Iterable[pb.ProcessInfo],
) -> tuple[AdoptedJob, ...]:
    """Return the running jobs of another owner, with their cores."""
    return tuple(found for entry in entries if (found := _adopted(entry)) is not None)


def _adopted(entry: pb.JobUsage | pb.ProcessInfo) -> AdoptedJob | None:
    if not entry.HasField("adoption"):
        return None
    told = entry.adoption
    return AdoptedJob(
        job_id=JobId(entry.job_id),
        cpus=cpus_of(entry.cpus),
        allocated=cpus_of(told.allocated_cpus),
        mode=MODES.get(told.mode, ResizeMode.FIXED) if told.mode else ResizeMode.FIXED,
        app=told.app if valid_name(told.app) else "",
    )


Powers = dict[ZoneName, int]


def not_held(message: pb.Telemetry | pb.Inventory, node: NodeSpec) -> Powers:
    """Mean power of the zones that draw more than their caps, up to whole watts."""
    charged = {zone.name for zone in node.zones}
    return {
        ZoneName(zone.name): -(-zone.not_held_uw // UW_PER_W) * UW_PER_W
        for zone in message.zones
        if zone.not_held_uw and zone.name in charged
    }


def tells_more(told: Powers, found: Powers) -> bool:
    """Whether other zones exceed their caps than were reported, or draw more."""
    return told.keys() != found.keys() or any(found[name] > told[name] for name in told)


class ClockOffset:
    """Relates an agent's clock to the coordinator's clock. The shortest delay seen counts as zero.

    A message that waited (in a busy loop or a slow network) must not shift the times that it
    reports. Old minima are forgotten after one or two minutes, because clocks drift apart.
    """

    def __init__(self) -> None:
        self._least_ns: int | None = None
        self._before_ns: int | None = None
        self._since_ns = 0

    def ours(self, theirs_ns: int, now_ns: int) -> int:
        """Return the coordinator time at which a message that arrives now was sent."""
        seen_ns = now_ns - theirs_ns
        if self._least_ns is None or now_ns - self._since_ns > OFFSET_WINDOW_NS:
            self._before_ns, self._least_ns, self._since_ns = self._least_ns, seen_ns, now_ns
        self._least_ns = min(self._least_ns, seen_ns)
        before_ns = self._least_ns if self._before_ns is None else self._before_ns
        return theirs_ns + min(self._least_ns, before_ns)


def sample(message: pb.Telemetry, node: NodeSpec, now_ns: int) -> NodeSample:
    """Return a telemetry message as observations. ``now_ns`` is its send time by our clock."""
    most_uw = {zone.name: zone.cap_uw_max for zone in node.zones}
    return NodeSample(
        node_id=node.node_id,
        taken_ns=now_ns,
        base_power_uw=node.base_power_uw,
        zones={
            name: _zone_sample(zone, power_uw_max(most_uw[name]), now_ns)
            for zone in message.zones
            if (name := ZoneName(zone.name)) in most_uw
        },
        jobs={JobId(job.job_id): _job_sample(job) for job in message.jobs},
        drift_count=message.drift_count,
        platform=_platform(message, now_ns),
    )


def _zone_sample(zone: pb.ZonePower, most_uw: int, now_ns: int) -> ZoneSample:
    """Return a zone. A zone that reports more power than it can draw counts as not measured."""
    believed = zone.power_uw <= most_uw
    return ZoneSample(
        power_uw=zone.power_uw if believed else 0,
        energy_uj=zone.energy_uj,
        energy_at_ns=now_ns - zone.energy_age_ns,
        cap_uw=zone.cap_uw,
        valid=zone.valid and believed,
        power_uw_max=most_uw,
    )


def _platform(message: pb.Telemetry, now_ns: int) -> ZoneSample | None:
    power = message.node_power
    if power.source != pb.NodePower.SOURCE_PSYS or power.power_uw > power_uw_max(0):
        return None
    age_ns = min((zone.energy_age_ns for zone in message.zones), default=0)
    return ZoneSample(
        power_uw=power.power_uw,
        energy_uj=power.energy_uj,
        energy_at_ns=now_ns - age_ns,
        cap_uw=0,
        valid=True,
    )


def _job_sample(job: pb.JobUsage) -> JobSample:
    return JobSample(
        cpu_ns=job.cpu_ns,
        energy_uj=job.energy_uj,
        residual_cpu_ns=job.residual_cpu_ns,
        threads=job.threads,
        team_size=job.team_size,
        regions=job.progress.regions,
        done=_amount(job.progress.done),
        total=_amount(job.progress.total),
        confined=job.shim == pb.SHIM_STATE_CONFINED,
        residual=tuple(_residual(core) for core in job.residual_cores),
        residual_alarm=job.residual_alarm,
        runnable=job.runnable_threads,
        excess_runnable_ns=job.excess_runnable_ns,
        voluntary_switches=job.voluntary_switches,
        involuntary_switches=job.involuntary_switches,
        memory_bytes=job.memory_bytes,
        memory_bytes_max=job.memory_bytes_max,
        core_ns=job.core_ns,
        idle_energy_uj=job.idle_energy_uj,
        placement=_placement(job),
        phase=job.phase if job.phase.isascii() and job.phase.isprintable() else "",
        cores_wanted=min(job.cores_wanted, MAX_CPU + 1),
        shim_message=job.shim_message,
        epochs_saved=job.epochs_saved if job.HasField("epochs_saved") else -1,
        epoch_ns=job.epoch_ns,
        processes_left=job.processes_left,
        stray_cpus=str(cpus_of(job.stray_cpus)),
        stray_repairs=job.stray_repairs,
        gpu_energy_uj=job.gpu_energy_uj,
        gpus=tuple(_gpu(gpu) for gpu in job.gpu_uses),
    )


def _amount(value: float) -> float:
    """Return an amount of work. An invalid value counts as not reported: 0."""
    return value if 0 <= value < math.inf else 0.0


def _gpu(use: pb.GpuUse) -> GpuSample:
    return GpuSample(
        gpu=use.gpu,
        energy_uj=use.energy_uj,
        power_uw=use.power_uw,
        busy_percent=min(use.busy_percent, 100) if use.HasField("busy_percent") else None,
        memory_bytes=use.memory_bytes if use.HasField("memory_bytes") else None,
    )


def _placement(job: pb.JobUsage) -> MapSample | None:
    """Return the reported processor map of a Charm++ job; None = the job has no map."""
    if not (job.processor_map or job.map_message):
        return None
    if max(len(job.processor_map), len(job.processors)) > PES_MAX:
        raise MessageError(f"job {job.job_id}: the processor map has more than {PES_MAX} PEs")
    return MapSample(
        digits=digits(job.processor_map),
        applied=job.map_applied,
        message=job.map_message,
        pes=tuple(
            PeSample(
                pe=pe.pe,
                enabled=pe.enabled,
                objects=pe.objects if pe.HasField("objects") else None,
                pid=pe.pid,
                cpu_ns=pe.cpu_ns,
                memory_bytes=pe.memory_bytes,
            )
            for pe in job.processors
        ),
        surplus=job.surplus_processes,
    )


def has_map(answer: pb.SetMaskResponse, action: act.SetMask) -> bool:
    """Whether the requested map is in force."""
    return answer.map_applied and answer.processor_map == action.processor_map


def log_map(log: logging.Logger, action: act.SetMask, answer: pb.SetMaskResponse) -> None:
    """Log a requested map: the map in force, and whether it is the requested map."""
    log.log(
        logging.WARNING if answer.shim == pb.SHIM_STATE_CONFINED else logging.INFO,
        "event=processor_map node=%s job=%s wanted=%s map=%s applied=%s applied_ns=%d",
        action.node_id,
        action.job_id,
        digits(action.processor_map),
        digits(answer.processor_map) or "unknown",
        answer.map_applied,
        answer.acknowledged_in_ns,
    )


def _residual(core: pb.CoreResidual) -> CoreResidual:
    if core.cpu > MAX_CPU or not 0 <= core.load < math.inf:
        raise MessageError(f"a residual load of {core.load} on CPU {core.cpu} is not possible")
    return CoreResidual(cpu=core.cpu, cpu_ns=core.cpu_ns, load=core.load)
