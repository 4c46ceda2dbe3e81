"""Between the agents' messages and the core's types, checked where they come in."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable

from wattfold.contract.cpuset import MAX_CPU, CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName, valid_name
from wattfold.contract.processor_map import PES_MAX, digits
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.contract.units import UW_PER_W, w_from_uw
from wattfold.coordinator.adapters.observations import (
    CoreResidual,
    GpuSample,
    JobSample,
    MapSample,
    NodeSample,
    PeSample,
    ZoneSample,
)
from wattfold.coordinator.adapters.step_keys import steps_address
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.attempt import Saving
from wattfold.coordinator.core.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.v1 import node_agent_pb2 as pb

ZONES_MAX = 64
NAMES_MAX = 1024
"""GPUs of a node, and features."""
OFFSET_WINDOW_NS = 60_000_000_000
_SAVINGS = {
    pb.SAVING_UNASKED: Saving.UNASKED,
    pb.SAVING_SAVED: Saving.SAVED,
    pb.SAVING_UNSAVED: Saving.UNSAVED,
    pb.SAVING_KILLED: Saving.KILLED,
}
_GPU_ACCESS = {
    pb.GPU_ACCESS_CGROUP_V1: "cgroup v1",
    pb.GPU_ACCESS_CGROUP_V2: "cgroup v2",
    pb.GPU_ACCESS_TOLD: "told",
}
_CHARGED = {
    pb.ZONE_KIND_PACKAGE: ZoneKind.PACKAGE,
    pb.ZONE_KIND_DRAM: ZoneKind.DRAM,
    pb.ZONE_KIND_GPU: ZoneKind.GPU,
}
"""psys is left out: it contains the packages."""


class MessageError(Exception):
    """An agent said something that cannot be; the message names field and value."""


def node_spec(message: pb.Inventory, expected: NodeId, address: str = "") -> NodeSpec:
    """The inventory of the agent at an address as the core's NodeSpec. Raises MessageError."""
    if message.node_id != expected:
        raise MessageError(f"the agent calls itself {message.node_id!r}, expected {expected!r}")
    if len(message.zones) > ZONES_MAX:
        raise MessageError(f"{len(message.zones)} power zones exceed the limit of {ZONES_MAX}")
    cpus = _cpus(message.cpus)
    if not cpus:
        raise MessageError("the agent offers no cores")
    return NodeSpec(
        node_id=expected,
        cpus=cpus,
        zones=tuple(_zone(z) for z in message.zones if z.kind in _CHARGED),
        base_power_uw=message.base_power_uw,
        curve=_curve(message),
        emulated=message.emulated,
        mask_mechanism=_short(pb.MaskMechanism.Name(message.mask_mechanism)),
        throttle_mechanism=_short(pb.ThrottleMechanism.Name(message.throttle_mechanism)),
        topology=_topology(message, cpus),
        isolated_cpus=_cpus(message.isolated_cpus),
        offline_cpus=_cpus(message.offline_cpus),
        steps_address=steps_address(message.steps_address, address),
        memory_bytes=message.memory_bytes,
        gpus=_named(message.gpus, "GPU"),
        features=_named(message.features, "feature"),
        memory_mechanism=_memory(message),
        gpu_model=_gpu_model(message),
        gpu_access=_GPU_ACCESS.get(message.gpu_access, ""),
    )


def _named(names: Iterable[str], what: str) -> tuple[str, ...]:
    found = tuple(names)
    if len(found) > NAMES_MAX or len(set(found)) < len(found) or not all(map(valid_name, found)):
        raise MessageError(
            f"the {what} names must be at most {NAMES_MAX} different valid names, got {found[:5]}"
        )
    return found


def _gpu_model(message: pb.Inventory) -> str:
    if message.gpu_model and not valid_name(message.gpu_model):
        raise MessageError(f"the GPU model {message.gpu_model!r} is not a valid name")
    return message.gpu_model


def _memory(message: pb.Inventory) -> str:
    if message.memory_mechanism == pb.MEMORY_MECHANISM_UNSPECIFIED:
        return ""
    return _short(pb.MemoryMechanism.Name(message.memory_mechanism))


def _topology(message: pb.Inventory, cpus: CpuSet) -> Topology:
    places = {
        entry.cpu: CpuPlace(
            cpu=entry.cpu,
            package=entry.package,
            numa_node=entry.numa_node,
            siblings=_siblings(entry, message),
        )
        for entry in message.topology
        if entry.cpu in cpus
    }
    return _shared(Topology.of(places.values()))


def _siblings(entry: pb.Cpu, message: pb.Inventory) -> CpuSet:
    if entry.siblings:
        return _cpus(entry.siblings)
    # Of an agent that does not tell them.
    same = (entry.package, entry.core)
    return CpuSet.of(cpu.cpu for cpu in message.topology if (cpu.package, cpu.core) == same)


@functools.lru_cache(maxsize=1024)
def _shared(topology: Topology) -> Topology:
    """One object for nodes that are alike: a snapshot of a cluster is sent to the worker often."""
    return topology


def _short(name: str) -> str:
    return name.split("_MECHANISM_", 1)[-1].lower().replace("_", " ")


def _cpus(text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise MessageError(str(error)) from error


def _curve(message: pb.Inventory) -> Curve | None:
    if not message.HasField("model"):
        return None
    m = message.model
    if not (m.a > 0 and m.b >= 0 and m.c > 0 and 0 < m.f_low_ghz < m.f_high_ghz):
        raise MessageError(f"its power model is invalid: {m}")
    return Curve(a=m.a, b=m.b, c=m.c, f_low_ghz=m.f_low_ghz, f_high_ghz=m.f_high_ghz)


def _zone(message: pb.PowerZone) -> Zone:
    low, high, floor = message.cap_uw_min, message.cap_uw_max, message.floor_uw
    if not valid_name(message.name):
        raise MessageError(f"zone name {message.name!r} is not valid")
    if message.can_cap and not low <= floor <= high:
        raise MessageError(
            f"zone {message.name}: floor of {w_from_uw(floor):g} W is outside its range of "
            f"{w_from_uw(low):g}..{w_from_uw(high):g} W",
        )
    if message.kind == pb.ZONE_KIND_GPU and not message.can_cap and not high:
        raise MessageError(
            f"zone {message.name} cannot be capped and its maximum power is unknown; set it "
            'in gpu_max_w of the agent, or set gpus = "off" and include it in base_power_w'
        )
    return Zone(
        name=ZoneName(message.name),
        kind=_CHARGED[message.kind],
        cap_uw_min=low,
        cap_uw_max=high,
        floor_uw=floor,
        window_ns=message.window_ns,
        can_cap=message.can_cap,
    )


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
        if zone.kind in _CHARGED and zone.can_cap
    )


def _original_uw(zone: pb.PowerZone) -> int:
    return zone.original_uw or zone.cap_uw_max


def readings_of_leave(message: pb.LeaveResponse) -> tuple[reports.ZoneReading, ...]:
    """What holds after a node was given back, and which zones could not be."""
    failed = {failure.name: failure.reason or "no reason given" for failure in message.failures}
    caps_uw = {cap.name: cap.cap_uw for cap in message.caps}
    return tuple(
        reports.ZoneReading(
            zone=ZoneName(name), cap_uw=caps_uw.get(name, 0), error=failed.get(name, "")
        )
        for name in dict.fromkeys((*caps_uw, *failed))
    )


def readings_of_caps(caps: Iterable[pb.ZoneCap]) -> tuple[reports.ZoneReading, ...]:
    """Caps enforced now, from the answer to a lease."""
    return tuple(reports.ZoneReading(zone=ZoneName(cap.name), cap_uw=cap.cap_uw) for cap in caps)


def readings_of_results(results: Iterable[pb.CapResult]) -> tuple[reports.ZoneReading, ...]:
    """What holds after a command, and which zones refused."""
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
    status = pb.CapStatus.Name(result.status).removeprefix("CAP_STATUS_").lower()
    asked, holds = result.requested_uw / 1e6, result.enforced_uw / 1e6
    return f"{status}: requested {asked:.3f} W, {holds:.3f} W is in force. {result.message}".strip()


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
        cpus=_cpus(message.cpus),
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
    """Whether other zones do not hold their caps than was told, or draw more."""
    return told.keys() != found.keys() or any(found[name] > told[name] for name in told)


class ClockOffset:
    """Relates an agent's clock to ours: the least delay seen of its messages counts as none.

    A message that waited (a busy loop, a slow network) must not move what it tells in time. Old
    minima are forgotten after one or two minutes, for clocks that drift apart.
    """

    def __init__(self) -> None:
        self._least_ns: int | None = None
        self._before_ns: int | None = None
        self._since_ns = 0

    def ours(self, theirs_ns: int, now_ns: int) -> int:
        """Our time for the time a message that arrives now was sent at."""
        seen_ns = now_ns - theirs_ns
        if self._least_ns is None or now_ns - self._since_ns > OFFSET_WINDOW_NS:
            self._before_ns, self._least_ns, self._since_ns = self._least_ns, seen_ns, now_ns
        self._least_ns = min(self._least_ns, seen_ns)
        before_ns = self._least_ns if self._before_ns is None else self._before_ns
        return theirs_ns + min(self._least_ns, before_ns)


def sample(message: pb.Telemetry, node: NodeSpec, now_ns: int) -> NodeSample:
    """A telemetry message as observations; ``now_ns`` is our time for when it was sent."""
    charged = {zone.name for zone in node.zones}
    return NodeSample(
        node_id=node.node_id,
        taken_ns=now_ns,
        base_power_uw=node.base_power_uw,
        zones={
            ZoneName(zone.name): ZoneSample(
                power_uw=zone.power_uw,
                energy_uj=zone.energy_uj,
                energy_at_ns=now_ns - zone.energy_age_ns,
                cap_uw=zone.cap_uw,
                valid=zone.valid,
            )
            for zone in message.zones
            if zone.name in charged
        },
        jobs={JobId(job.job_id): _job_sample(job) for job in message.jobs},
        drift_count=message.drift_count,
        platform=_platform(message, now_ns),
    )


def _platform(message: pb.Telemetry, now_ns: int) -> ZoneSample | None:
    power = message.node_power
    if power.source != pb.NodePower.SOURCE_PSYS:
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
        done=job.progress.done,
        total=job.progress.total,
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
        stray_cpus=str(_cpus(job.stray_cpus)),
        stray_repairs=job.stray_repairs,
        gpu_energy_uj=job.gpu_energy_uj,
        gpus=tuple(_gpu(gpu) for gpu in job.gpu_uses),
    )


def _gpu(use: pb.GpuUse) -> GpuSample:
    return GpuSample(
        gpu=use.gpu,
        energy_uj=use.energy_uj,
        power_uw=use.power_uw,
        busy_percent=min(use.busy_percent, 100) if use.HasField("busy_percent") else None,
        memory_bytes=use.memory_bytes if use.HasField("memory_bytes") else None,
    )


def _placement(job: pb.JobUsage) -> MapSample | None:
    """What is known of the processor map of a Charm++ job; None of a job that has none."""
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
    """Whether the map that was sent is in force."""
    return answer.map_applied and answer.processor_map == action.processor_map


def log_map(log: logging.Logger, action: act.SetMask, answer: pb.SetMaskResponse) -> None:
    """One line for a map that was sent: what holds, and whether it is the one asked for."""
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
