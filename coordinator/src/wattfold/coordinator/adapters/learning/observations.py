"""Recent measurements of the agents: power, energy and progress. Never used for the budget.

The newest message of every agent is kept in memory. The ledger uses caps, which hold whether or not
a measurement arrives.

The power of all nodes is measured over one common second. Messages of different nodes are up to an
interval apart, so the sum of the newest values could count power twice that has moved from one node
to another. So the power is computed from the energy counters, which carry their time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.contract.plausible import energy_uj_max, power_uw_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSample:
    """Power (uW, mean over the agent's interval) and energy (uJ, at its time) of a zone.

    Not ``valid``: the agent could not read it, or its power is above ``power_uw_max``.
    """

    power_uw: int
    energy_uj: int
    energy_at_ns: int
    cap_uw: int
    valid: bool
    power_uw_max: int = power_uw_max(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreResidual:
    """Work of a job on a core it does not hold: total since launch, and recent CPU s per s."""

    cpu: int
    cpu_ns: int
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PeSample:
    """A PE of a Charm++ job; not enabled = residual. None and 0 = unknown."""

    pe: int
    enabled: bool
    objects: int | None
    pid: int
    cpu_ns: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSample:
    """The processor map of a Charm++ job in force, as 0 and 1, and its PEs.

    ``applied``: it is the last requested map; otherwise ``message`` gives the reason. ``surplus``:
    processes left over from restarts.
    """

    digits: str
    applied: bool
    message: str = ""
    pes: tuple[PeSample, ...] = ()
    surplus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """A GPU of a job: energy since the job holds it, and the last report of its driver.

    None: the driver does not report it. ``memory_bytes`` is the used memory of the device, by all
    processes.
    """

    gpu: str
    energy_uj: int
    power_uw: int
    busy_percent: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """Usage of a job on one node since its launch.

    ``core_ns`` is the number of cores held times time. ``idle_energy_uj`` is their share of the
    idle energy, not included in ``energy_uj``. ``excess_runnable_ns`` is the time integral of the
    number of runnable threads above the number of cores. ``processes_left`` processes are being
    killed after the end of the first process. ``stray_cpus`` are cores outside the mask to which
    its threads have bound themselves. ``epochs_saved`` is the number of epochs in the snapshot of a
    training job, -1 = not reported. ``epoch_ns`` is the time of the last epoch, 0 = unknown.
    """

    cpu_ns: int
    energy_uj: int
    residual_cpu_ns: int
    threads: int
    team_size: int
    regions: int
    done: float
    total: float
    confined: bool
    residual: tuple[CoreResidual, ...] = ()
    residual_alarm: bool = False
    runnable: int = 0
    excess_runnable_ns: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    core_ns: int = 0
    idle_energy_uj: int = 0
    placement: MapSample | None = None
    phase: str = ""
    cores_wanted: int = 0
    shim_message: str = ""
    processes_left: int = 0
    stray_cpus: str = ""
    stray_repairs: int = 0
    epochs_saved: int = -1
    epoch_ns: int = 0
    gpu_energy_uj: int = 0
    gpus: tuple[GpuSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """One telemetry message.

    ``platform`` is the meter of the whole node (psys), if it has one. It includes the zones and all
    other consumers, so it replaces the zones and is never added to them.
    """

    node_id: NodeId
    taken_ns: int
    base_power_uw: int
    zones: dict[ZoneName, ZoneSample]
    jobs: dict[JobId, JobSample]
    drift_count: int
    platform: ZoneSample | None = None

    @property
    def meters(self) -> dict[ZoneName, ZoneSample]:
        """Meters whose sum is the measured part of the node."""
        return self.zones if self.platform is None else {PLATFORM: self.platform}

    @property
    def unmeasured_uw(self) -> int:
        """Power to be added to the meters."""
        return self.base_power_uw if self.platform is None else 0

    @property
    def power_uw(self) -> int:
        """Power of the node: of the platform meter, or else of its zones plus its base power."""
        return self.unmeasured_uw + sum(zone.power_uw for zone in self.meters.values())

    @property
    def residual(self) -> CpuSet:
        """Cores whose residual work is not negligible."""
        loads: dict[int, float] = {}
        for job in self.jobs.values():
            for core in job.residual:
                loads[core.cpu] = loads.get(core.cpu, 0.0) + core.load
        return CpuSet.of(cpu for cpu, load in loads.items() if load >= LOAD_MIN)


LOAD_MIN = 0.01
"""CPU seconds per second. The peaks of an idle residual process are about 0.02."""
PLATFORM = ZoneName("psys")
COMMON_NS = 1_000_000_000
"""Interval over which the power of all nodes is measured."""
READINGS_KEPT = 64
PEAK_EVERY_NS = 100_000_000
"""Interval of the peak search. A mean over a second has no peak between two such samples."""
PEAK_EVERY_NS_A_NODE = 1_000_000
"""Minimum interval per node.

The peak search takes about 10 us per node. With many nodes, one node is too small a part of the sum
to cause a peak between two samples.
"""
Readings = deque[tuple[int, int]]
"""(time in nanoseconds, energy in microjoules), ascending."""


class LastSample(NamedTuple):
    """Coordinator time of the last telemetry of a node, and its mean power at that time."""

    taken_ns: int
    power_uw: int


@dataclass(slots=True)
class Observations:
    """Newest samples by node, and the highest observed power of all nodes together."""

    peak_uw: int = 0
    counted_uj: int = 0
    """Energy counted by all meters since their first samples here; it never falls."""
    nodes: dict[NodeId, NodeSample] = field(default_factory=dict)
    residual: dict[NodeId, CpuSet] = field(default_factory=dict)
    """Cores with recent residual work, of the nodes that have such cores."""
    last: dict[NodeId, LastSample] = field(default_factory=dict)
    """Last samples of silent nodes."""
    _peaked_ns: int = -PEAK_EVERY_NS
    _energy: dict[NodeId, dict[ZoneName, Readings]] = field(default_factory=dict)
    _of_job: dict[JobId, dict[NodeId, JobSample]] = field(default_factory=dict)
    _power_uw: int | None = None
    _counted: dict[tuple[NodeId, ZoneName], tuple[int, int]] = field(default_factory=dict)
    """Last reading of each meter, retained while its node is silent."""

    def take(self, sample: NodeSample) -> None:
        """Replace the measurements of a node."""
        self._forget_jobs(sample.node_id, but=sample)
        self.nodes[sample.node_id] = sample
        self.last.pop(sample.node_id, None)
        for job_id, job in sample.jobs.items():
            self._of_job.setdefault(job_id, {})[sample.node_id] = job
        if residual := sample.residual:
            self.residual[sample.node_id] = residual
        else:
            self.residual.pop(sample.node_id, None)
        self._power_uw = None
        for name, zone in sample.meters.items():
            if zone.valid:
                energy = self._energy.setdefault(sample.node_id, {})
                self._read(energy.setdefault(name, deque()), zone)
                self._count((sample.node_id, name), zone)
        if sample.taken_ns - self._peaked_ns >= self._peak_every_ns:
            self._peaked_ns = sample.taken_ns
            self.peak_uw = max(self.peak_uw, self.power_uw)

    @property
    def _peak_every_ns(self) -> int:
        return max(PEAK_EVERY_NS, len(self.nodes) * PEAK_EVERY_NS_A_NODE)

    def _forget_jobs(self, node_id: NodeId, but: NodeSample | None) -> None:
        """Delete a node's samples of jobs that are missing in the newer sample."""
        before = self.nodes.get(node_id)
        for job_id in before.jobs if before else ():
            if but is None or job_id not in but.jobs:
                samples = self._of_job[job_id]
                del samples[node_id]
                if not samples:
                    del self._of_job[job_id]

    @staticmethod
    def _read(readings: Readings, zone: ZoneSample) -> None:
        if readings and not _follows(readings[-1], zone):
            readings.clear()
        if not readings or zone.energy_at_ns > readings[-1][0]:
            readings.append((zone.energy_at_ns, zone.energy_uj))
        if len(readings) > READINGS_KEPT:
            readings.popleft()

    def _count(self, meter: tuple[NodeId, ZoneName], zone: ZoneSample) -> None:
        before = self._counted.get(meter)
        if before is not None and _follows(before, zone):
            self.counted_uj += zone.energy_uj - before[1]
        self._counted[meter] = (zone.energy_at_ns, zone.energy_uj)

    def drop(self, node_id: NodeId) -> None:
        """Delete the measurements of a silent node, except its last power."""
        if sample := self.nodes.get(node_id):
            self.last[node_id] = LastSample(sample.taken_ns, sample.power_uw)
        self._forget_jobs(node_id, but=None)
        self.nodes.pop(node_id, None)
        self.residual.pop(node_id, None)
        self._energy.pop(node_id, None)
        self._power_uw = None

    @property
    def power_uw(self) -> int:
        """Mean power of all nodes in contact, over the last second that all of them cover.

        A zone with too few readings counts with the value of its agent.
        """
        if self._power_uw is None:
            self._power_uw = self._sum_uw()
        return self._power_uw

    def _sum_uw(self) -> int:
        total_uw = sum(node.unmeasured_uw for node in self.nodes.values())
        meters = [r for zones in self._energy.values() for r in zones.values()]
        until_ns = min((r[-1][0] for r in meters if len(r) > 1), default=0)
        for node_id, node in self.nodes.items():
            for name, zone in node.meters.items():
                readings = self._energy.get(node_id, {}).get(name)
                mean_uw = _mean_uw(readings, until_ns) if readings else None
                total_uw += zone.power_uw if mean_uw is None else mean_uw
        return total_uw

    @property
    def energy_uj(self) -> int:
        """Energy of all meters since their agents started, without the base power."""
        return sum(z.energy_uj for node in self.nodes.values() for z in node.meters.values())

    def samples_of_job(self, job_id: JobId) -> list[tuple[NodeId, JobSample]]:
        """Return the samples of a job, with their nodes."""
        return list(self._of_job.get(job_id, {}).items())

    def of_job(self, job_id: JobId) -> list[JobSample]:
        """Return the samples of a job on all its nodes."""
        return list(self._of_job.get(job_id, {}).values())


def _follows(before: tuple[int, int], zone: ZoneSample) -> bool:
    """Whether a reading continues a counter. A restarted agent counts from zero."""
    before_ns, before_uj = before
    step_uj, elapsed_ns = zone.energy_uj - before_uj, zone.energy_at_ns - before_ns
    return 0 <= step_uj <= energy_uj_max(zone.power_uw_max, elapsed_ns)


def _mean_uw(readings: Readings, until_ns: int) -> int | None:
    """Return the mean power over the common second before a time; None if readings are missing."""
    since_ns = max(until_ns - COMMON_NS, readings[0][0])
    if until_ns - since_ns < COMMON_NS // 2:
        return None
    first, last = _at(readings, since_ns), _at(readings, until_ns)
    return round((last - first) * 1e9 / (until_ns - since_ns))


def _at(readings: Readings, time_ns: int) -> float:
    """Return the energy at a time between two readings, by linear interpolation."""
    for index in range(len(readings) - 1, 0, -1):
        before, after = readings[index - 1], readings[index]
        if before[0] <= time_ns:
            share = (time_ns - before[0]) / (after[0] - before[0])
            return before[1] + min(share, 1.0) * (after[1] - before[1])
    return float(readings[0][1])
