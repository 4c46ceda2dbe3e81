"""Emulated power zones: a tree like /sys/class/powercap and a thread that acts as its firmware.

The thread reads the limits written into the tree, and rounds and clips them like hardware. It slows
the node's jobs accordingly, and advances the energy counters by the power that follows from the CPU
time really used. The tree survives the agent, like the limits of real hardware.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.emulated_gpus import EmulatedGpus
from wattfold.nodeagent.adapters.devices.emulated_zone import EmulatedZone, ZoneRange, keep
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.procfs import descendants
from wattfold.nodeagent.adapters.jobs.throttle import Throttle, ThrottleMechanism
from wattfold.nodeagent.core.emulation_model import (
    BACKLOG_S_MAX,
    EmulationModel,
    OperatingPoint,
    draw,
)

_MODEL_TICK_NS = 50_000_000
_GAP_NS_MAX = NS_PER_S
"""A longer gap between two ticks (a suspended machine) is not charged."""
_UNLIMITED = OperatingPoint(f_ghz=1.0, duty=1.0, speed=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues:
    """Values that the emulated hardware accepts."""

    package_uw_min: int
    package_uw_max: int
    dram_uw_min: int
    dram_uw_max: int
    window_us: int
    energy_range_uj: int

    @property
    def package(self) -> ZoneRange:
        """The zone of the package."""
        return self._zone(self.package_uw_min, self.package_uw_max)

    @property
    def dram(self) -> ZoneRange:
        """The zone of its DRAM."""
        return self._zone(self.dram_uw_min, self.dram_uw_max)

    def _zone(self, uw_min: int, uw_max: int) -> ZoneRange:
        return ZoneRange(
            uw_min=uw_min,
            uw_max=uw_max,
            window_us=self.window_us,
            energy_range_uj=self.energy_range_uj,
        )


class EmulatedTree:
    """The zones of a package and its DRAM."""

    def __init__(self, root: Path, spec: AcceptedValues) -> None:
        (root / "intel-rapl").mkdir(parents=True, exist_ok=True)
        keep(root / "intel-rapl" / "enabled", 1)
        package = root / "intel-rapl:0"
        dram = package / "intel-rapl:0:0"
        self._package = EmulatedZone(package, "package-0", spec.package)
        self._dram = EmulatedZone(dram, "dram", spec.dram)
        link = root / "intel-rapl:0:0"
        if not link.is_symlink():
            link.symlink_to("intel-rapl:0/intel-rapl:0:0")

    def limits_w(self) -> tuple[float, float]:
        """Return the package and DRAM limits in force, W, after rounding and clipping."""
        return w_from_uw(self._package.limit_uw()), w_from_uw(self._dram.limit_uw())

    def advance(self, package_w: float, dram_w: float, elapsed_s: float, until_ns: int) -> None:
        """Add the energy of a time until ``until_ns`` to the counters, which wrap."""
        self._package.advance(package_w, elapsed_s, until_ns)
        self._dram.advance(dram_w, elapsed_s, until_ns)


@dataclass(slots=True, kw_only=True)
class _Job:
    cores: int
    keeper: int
    cpu_ns: int
    members: list[int]
    gpus: tuple[str, ...] = ()
    backlog_s: float = 0.0
    """Used CPU seconds that are not yet charged to its GPUs."""


class EmulatedFirmware:
    """The firmware thread of the tree. Its methods may be called from any thread."""

    def __init__(
        self,
        tree: EmulatedTree,
        model: EmulationModel,
        throttle: Throttle,
        clock: CpuClock,
        gpus: EmulatedGpus | None = None,
    ) -> None:
        self._tree = tree
        self._gpus = gpus
        self._model = model
        self._throttle = throttle
        self._clock = clock
        self.jobs_changed: Callable[[], None] = lambda: None
        """Called in the caller's thread after a job has come, or its cores have changed."""
        self.job_gone: Callable[[], None] = lambda: None
        """Called in the caller's thread after a job has gone."""
        self._lock = threading.Lock()
        self._jobs: dict[JobId, _Job] = {}
        self._point = _UNLIMITED
        self._backlog_s = 0.0
        self._last_ns = time.monotonic_ns()
        self._stop = threading.Event()
        self._repeats = Repeats()
        self._thread = threading.Thread(target=self._run, name="emulated-firmware", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, slowed: bool = True) -> None:
        """End the thread. The jobs stay slowed by the limits in the tree, if the throttle can.

        Emulated registers outlive the agent like real registers. Without ``slowed``, or if the
        throttle needs this process, the jobs continue without a quota.
        """
        self._stop.set()
        self._thread.join()
        with self._lock:
            if slowed:
                self._operate()
                return
            for job in self._jobs:
                with contextlib.suppress(OSError):
                    self._throttle.release(job)

    def stopped_path(self, job: JobId) -> str:
        """Return where the throttle records the processes of a job it stopped; empty = none."""
        return str(self._throttle.stopped_path(job) or "")

    def prepare(self, job: JobId, cores: int, gpus: tuple[str, ...] = ()) -> tuple[Path, ...]:
        """Register a job to start, with its cores. Returns the files to write its PID into."""
        with self._lock:
            held = _Job(cores=cores, keeper=0, cpu_ns=0, members=[], gpus=gpus)
            self._jobs[job] = held
            self._operate()
            files = self._throttle.prepare(job, self._quota(held))
        self.jobs_changed()
        return files

    @property
    def slows_by_group(self) -> bool:
        """Whether jobs are slowed by a control group, so that none of them gets a signal."""
        return self._throttle.mechanism is ThrottleMechanism.CPU_BANDWIDTH

    def files(self, job: JobId) -> tuple[Path, ...]:
        """Return the files to write the PIDs of further processes of a registered job into."""
        with self._lock:
            return self._throttle.prepare(job, self._quota(self._jobs[job]))

    def started(self, job: JobId, keeper: int) -> None:
        """Record the process of a prepared job."""
        with self._lock:
            self._jobs[job].keeper = keeper

    def adopt(self, job: JobId, keeper: int, cores: int, gpus: tuple[str, ...] = ()) -> None:
        """Register a job of an earlier agent. Its CPU time until now is not charged again."""
        members = descendants(keeper)
        with self._lock:
            used_ns = self._clock.read_ns(job, keeper, members)
            held = _Job(cores=cores, keeper=keeper, cpu_ns=used_ns, members=members, gpus=gpus)
            self._jobs[job] = held
            self._operate()
            self._throttle.prepare(job, self._quota(held))
        self.jobs_changed()

    def resize(self, job: JobId, cores: int) -> None:
        """Set the number of cores of a job."""
        with self._lock:
            if job in self._jobs:
                self._jobs[job].cores = cores
                self._operate()
        self.jobs_changed()

    def release(self, job: JobId) -> None:
        """Let a job die: it is no longer stopped or slowed."""
        with self._lock:
            if job in self._jobs:
                self._throttle.release(job)

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        """Record that a job was suspended or resumed on request."""
        with self._lock:
            self._throttle.suspend(job, suspended=suspended)

    def remove(self, job: JobId) -> None:
        """Remove a job that has ended."""
        with self._lock:
            self._jobs.pop(job, None)
            self._throttle.remove(job)
            self._operate()
        self.job_gone()

    def floor_writes(
        self, package_uw: int, dram_uw: int, gpu_uw: int = 0
    ) -> list[tuple[Path, str]]:
        """Return the writes that hold the jobs to these caps if this thread dies with the agent.

        ``gpu_uw`` is the cap of each GPU. Only the bandwidth controller works without the thread;
        with signals there is nothing to write.
        """
        with self._lock:
            caps_w = (w_from_uw(package_uw), w_from_uw(dram_uw))
            point = self._model.operating_point(*caps_w, self._held())
            return [
                write
                for name, job in self._jobs.items()
                for write in self._throttle.quota_writes(
                    name, self._quota(job, point, w_from_uw(gpu_uw))
                )
            ]

    def _run(self) -> None:
        model_due_ns = 0
        while not self._stop.wait(self._throttle.tick_ns / NS_PER_S):
            now_ns = time.monotonic_ns()
            try:
                with self._lock:
                    demand_ns = self._observe(now_ns)
                    self._backlog_s += demand_ns / NS_PER_S
                    if now_ns >= model_due_ns:
                        model_due_ns = now_ns + _MODEL_TICK_NS - self._throttle.tick_ns // 2
                        self._charge(now_ns)
                        self._operate()
            except Exception as error:  # noqa: BLE001 - the firmware must not stop with a node capped
                if count := self._repeats.one_more("tick", now_ns / NS_PER_S):
                    logs.warning("firmware_tick_failed", error=repr(error), times=count)

    def _observe(self, now_ns: int) -> int:
        """Return the CPU nanoseconds used by all jobs since the last tick."""
        used_ns = 0
        for name, job in self._jobs.items():
            if not job.keeper:
                continue
            job.members = descendants(job.keeper) if self._needs_members() else []
            cpu_ns = self._clock.read_ns(name, job.keeper, job.members)
            used_ns += cpu_ns - job.cpu_ns
            if job.gpus:
                job.backlog_s += (cpu_ns - job.cpu_ns) / NS_PER_S
            job.cpu_ns = cpu_ns
            self._throttle.tick(name, cpu_ns, now_ns, _fresh(job.keeper))
        return used_ns

    def _needs_members(self) -> bool:
        return not self._clock.by_group

    def _charge(self, now_ns: int) -> None:
        elapsed_s = min(now_ns - self._last_ns, _GAP_NS_MAX) / NS_PER_S
        self._last_ns = now_ns
        result = draw(self._model, self._point, self._held(), self._backlog_s, elapsed_s)
        self._backlog_s = result.backlog_s
        self._tree.advance(result.package_w, result.dram_w, elapsed_s, now_ns)
        if self._gpus is not None:
            self._gpus.advance(self._gpus_busy(elapsed_s), elapsed_s, now_ns)

    def _gpus_busy(self, elapsed_s: float) -> dict[str, float]:
        """Return the busy share of each GPU with a job in this time.

        It is the CPU time that the job has used, relative to the CPU time that the GPU allows. The
        excess is charged later, as for packages.
        """
        found: dict[str, float] = {}
        for job in self._jobs.values():
            if not job.gpus:
                continue
            most_s = max(1, job.cores) * self._model.cpu_share * self._speed(job) * elapsed_s
            charged_s = min(job.backlog_s, most_s)
            job.backlog_s = min(job.backlog_s - charged_s, BACKLOG_S_MAX * max(1, job.cores))
            found |= dict.fromkeys(job.gpus, charged_s / most_s if most_s > 0 else 0.0)
        return found

    def _operate(self) -> None:
        """Find the operating point for the limits in force and set all quotas."""
        package_w, dram_w = self._tree.limits_w()
        self._point = self._model.operating_point(package_w, dram_w, self._held())
        if self._gpus is not None:
            self._gpus.operate()
        for name, job in self._jobs.items():
            if not job.keeper:
                continue
            try:
                self._throttle.set_quota(name, self._quota(job))
            except OSError as error:
                if count := self._repeats.one_more(f"quota {name}", time.monotonic()):
                    logs.warning("quota_not_set", job=name, reason=error, times=count)

    def _quota(
        self, job: _Job, point: OperatingPoint | None = None, gpu_w: float | None = None
    ) -> float:
        """Return the CPU quota in cores: the lower of the limits by its package and by its GPUs.

        A job without cores is slowed like a job with one core, because the job would wait for its
        residual processes.
        """
        cores = max(1, job.cores)
        by_gpus = cores * self._model.cpu_share * self._speed(job, gpu_w)
        return min(self._model.quota(cores, point or self._point), by_gpus)

    def _speed(self, job: _Job, gpu_w: float | None = None) -> float:
        return self._gpus.speed(job.gpus, gpu_w) if self._gpus is not None else 1.0

    def _held(self) -> int:
        return min(self._model.cores, sum(job.cores for job in self._jobs.values()))


def _fresh(keeper: int) -> Callable[[], list[int]]:
    return lambda: descendants(keeper)
