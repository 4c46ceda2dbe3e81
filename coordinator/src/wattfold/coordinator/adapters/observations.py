"""What agents measured lately: power, energy, progress. Never part of a decision on the budget.

The newest messages of every agent, kept in memory; the ledger works with caps, which hold whether
or not a measurement arrives.

The power of all nodes together is taken over one common second: messages of different nodes are up
to an interval apart, and the sum of the newest figures would count power that has moved from one
node to another twice. So it is computed from the energy counters, which carry their time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSample:
    """Power (uW, mean over the agent's interval) and energy (uJ, at its time) of a zone."""

    power_uw: int
    energy_uj: int
    energy_at_ns: int
    cap_uw: int
    valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreResidual:
    """Work of a job on a core it does not hold: since launch, and CPU seconds a second of late."""

    cpu: int
    cpu_ns: int
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PeSample:
    """A PE of a Charm++ job; not enabled = residual. None and 0 = not known."""

    pe: int
    enabled: bool
    objects: int | None
    pid: int
    cpu_ns: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSample:
    """The processor map of a Charm++ job in force, as 0 and 1, and its PEs.

    ``applied``: it is the one ordered last; else ``message`` says why. ``surplus``: processes that
    restarts have left over.
    """

    digits: str
    applied: bool
    message: str = ""
    pes: tuple[PeSample, ...] = ()
    surplus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """A GPU of a job: energy since the job has it, and what its driver told last.

    None: the driver does not tell. ``memory_bytes`` is of the device, in use by anybody.
    """

    gpu: str
    energy_uj: int
    power_uw: int
    busy_percent: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """Use of a job on one node since its launch.

    ``core_ns`` are cores held times time; ``idle_energy_uj`` is the share of the idle energy for
    them, not in ``energy_uj``. ``excess_runnable_ns`` is the time integral of the threads ready to
    run above the number of cores. ``processes_left`` after the end of its first one are being
    killed. ``stray_cpus``: cores outside its mask that its threads have set themselves to.
    ``epochs_saved`` of a training are in its snapshot, -1 = not told; ``epoch_ns`` is what the last
    one took, 0 = that says nothing.
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

    ``platform`` is the meter of the whole node (psys) where it has one. It contains the zones and
    what they do not, so that it stands in their place and is never added to them.
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
        """What adds up to the measured part of the node."""
        return self.zones if self.platform is None else {PLATFORM: self.platform}

    @property
    def unmeasured_uw(self) -> int:
        """What has to be added to the meters."""
        return self.base_power_uw if self.platform is None else 0

    @property
    def power_uw(self) -> int:
        """Power of the node: that of the platform, else its zones and its base power."""
        return self.unmeasured_uw + sum(zone.power_uw for zone in self.meters.values())

    @property
    def residual(self) -> CpuSet:
        """Cores with more residual work than can be neglected."""
        loads: dict[int, float] = {}
        for job in self.jobs.values():
            for core in job.residual:
                loads[core.cpu] = loads.get(core.cpu, 0.0) + core.load
        return CpuSet.of(cpu for cpu, load in loads.items() if load >= LOAD_MIN)


LOAD_MIN = 0.01
"""CPU seconds a second; the peaks of an idle residual process are about 0.02."""
PLATFORM = ZoneName("psys")
COMMON_NS = 1_000_000_000
"""The time over which the power of all nodes is taken."""
READINGS_KEPT = 64
PEAK_EVERY_NS = 100_000_000
"""A mean over a second does not peak between two looks that close."""
PEAK_EVERY_NS_A_NODE = 1_000_000
"""A look is at all nodes, about 10 us each: of many nodes it is taken once in a millisecond for
each, and one of them is too small a part of the sum to make it peak in between."""
Readings = deque[tuple[int, int]]
"""(time in nanoseconds, energy in microjoules), ascending."""


@dataclass(slots=True)
class Observations:
    """Newest samples by node, and the highest power of all nodes together seen."""

    peak_uw: int = 0
    nodes: dict[NodeId, NodeSample] = field(default_factory=dict)
    residual: dict[NodeId, CpuSet] = field(default_factory=dict)
    """Cores with residual work of late, of the nodes that have any."""
    _peaked_ns: int = -PEAK_EVERY_NS
    _energy: dict[NodeId, dict[ZoneName, Readings]] = field(default_factory=dict)
    _of_job: dict[JobId, dict[NodeId, JobSample]] = field(default_factory=dict)
    _power_uw: int | None = None

    def take(self, sample: NodeSample) -> None:
        """Replaces what is known of a node."""
        self._forget_jobs(sample.node_id, but=sample)
        self.nodes[sample.node_id] = sample
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
        if sample.taken_ns - self._peaked_ns >= self._peak_every_ns:
            self._peaked_ns = sample.taken_ns
            self.peak_uw = max(self.peak_uw, self.power_uw)

    @property
    def _peak_every_ns(self) -> int:
        return max(PEAK_EVERY_NS, len(self.nodes) * PEAK_EVERY_NS_A_NODE)

    def _forget_jobs(self, node_id: NodeId, but: NodeSample | None) -> None:
        """Forgets a node's samples of jobs that a newer one does not have."""
        before = self.nodes.get(node_id)
        for job_id in before.jobs if before else ():
            if but is None or job_id not in but.jobs:
                samples = self._of_job[job_id]
                del samples[node_id]
                if not samples:
                    del self._of_job[job_id]

    @staticmethod
    def _read(readings: Readings, zone: ZoneSample) -> None:
        if readings and zone.energy_uj < readings[-1][1]:
            readings.clear()  # The agent was started again and counts from zero.
        if not readings or zone.energy_at_ns > readings[-1][0]:
            readings.append((zone.energy_at_ns, zone.energy_uj))
        if len(readings) > READINGS_KEPT:
            readings.popleft()

    def drop(self, node_id: NodeId) -> None:
        """Forgets a node that fell silent."""
        self._forget_jobs(node_id, but=None)
        self.nodes.pop(node_id, None)
        self.residual.pop(node_id, None)
        self._energy.pop(node_id, None)
        self._power_uw = None

    @property
    def power_uw(self) -> int:
        """Mean power of all nodes heard of over the last second that all of them cover.

        A zone with too few readings yet counts with the figure of its agent.
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
        """Energy of all meters since their agents started (base power not included)."""
        return sum(z.energy_uj for node in self.nodes.values() for z in node.meters.values())

    def samples_of_job(self, job_id: JobId) -> list[tuple[NodeId, JobSample]]:
        """Samples of a job with the nodes they are from."""
        return list(self._of_job.get(job_id, {}).items())

    def of_job(self, job_id: JobId) -> list[JobSample]:
        """Samples of a job on all its nodes."""
        return list(self._of_job.get(job_id, {}).values())


def _mean_uw(readings: Readings, until_ns: int) -> int | None:
    """Mean power over the common second before a time, None if the readings do not cover it."""
    since_ns = max(until_ns - COMMON_NS, readings[0][0])
    if until_ns - since_ns < COMMON_NS // 2:
        return None
    first, last = _at(readings, since_ns), _at(readings, until_ns)
    return round((last - first) * 1e9 / (until_ns - since_ns))


def _at(readings: Readings, time_ns: int) -> float:
    """Energy at a time between two readings, by the straight line."""
    for index in range(len(readings) - 1, 0, -1):
        before, after = readings[index - 1], readings[index]
        if before[0] <= time_ns:
            share = (time_ns - before[0]) / (after[0] - before[0])
            return before[1] + min(share, 1.0) * (after[1] - before[1])
    return float(readings[0][1])
