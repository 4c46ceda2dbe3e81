"""Usage of jobs: CPU time, energy, cores, memory, threads, and work outside their masks.

There are two samples of different cost. The quick sample (CPU time, per CPU if a cgroup reports it)
is taken up to ten times a second. The sample of every thread is taken as often as its cost allows.
Both together stay below 0.5 % of a core for any number of threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import next_beat
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.thread_scan import KeptFiles, ThreadScanner
from wattfold.nodeagent.core.energy import IdlePower, shares
from wattfold.nodeagent.core.gpus import NodeGpu
from wattfold.nodeagent.core.residual import AlarmRule, Pace
from wattfold.nodeagent.service.jobs.gpu_accounting import GpuAccounting
from wattfold.nodeagent.service.jobs.job_processes import members
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.jobs.records import Job, JobState
from wattfold.nodeagent.service.power.power import NodePower

_QUICK = Pace(share=0.0015, interval_ns_min=100 * NS_PER_MS, interval_ns_max=NS_PER_S)
THREAD_PACE = Pace(share=0.003, interval_ns_min=100 * NS_PER_MS, interval_ns_max=5 * NS_PER_S)
_IDLE_S = 1.0
_FULL_EVERY = 4
"""Every this many scans of the threads, a scan also finds new processes and reads the switches."""
_SCAN_AT_ONCE_MAX = 256
"""Maximum number of threads scanned while a change of mask waits (10 us each)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRules:
    """Settings: idle power of all packages (0 = determine it), CPUs of the node, the alarm."""

    idle_uw: int
    cpus: int
    alarm: AlarmRule = field(default_factory=AlarmRule)


@dataclass(slots=True, kw_only=True)
class _Look:
    """Last readings of one attempt of a job."""

    job: Job
    scanner: ThreadScanner
    members: list[int] = field(default_factory=list)
    by_cpu_ns: list[int] | None = None
    scanned_ns: int = 0
    scans: int = 0
    charged_ns: int = 0
    core_ns: int = 0
    skip: bool = False


class Accounting:
    """Samples all jobs. ``on_alarm`` is called when an alarm of a job begins or ends."""

    def __init__(
        self,
        jobs: NodeJobs,
        power: NodePower,
        clock: CpuClock,
        rules: AccountingRules,
        on_alarm: Callable[[], None],
        gpus: Sequence[NodeGpu] = (),
    ) -> None:
        self.gpus = GpuAccounting(power, gpus)
        self._jobs = jobs
        self._power = power
        self._clock = clock
        self._rules = rules
        self._on_alarm = on_alarm
        self._idle = IdlePower(known_uw=rules.idle_uw)
        self._files = KeptFiles()
        self._looks: dict[str, _Look] = {}
        self._last_ns = time.monotonic_ns()
        self._last_uj = power.package_energy_uj()
        self._next_ns = 0
        self._next_scan_ns = 0

    def sample(self, *, force: bool = False) -> None:
        """Update the values of all jobs, unless they are fresh."""
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns and not force:
            return
        # Also if an error occurs below.
        self._next_ns = now_ns + _QUICK.interval_ns_min
        started_ns = time.thread_time_ns()
        scanning = now_ns >= self._next_scan_ns
        watched = [job for job in self._jobs.jobs.values() if _to_be_read(job)]
        if scanning:
            for job in watched:
                self._scan(job, now_ns)
        scanned_ns = time.thread_time_ns()
        if scanning:
            self._next_scan_ns = now_ns + THREAD_PACE.interval_ns(scanned_ns - started_ns)
        for job in watched:
            self._read(job, now_ns)
        self._share_energy(now_ns)
        self.gpus.charge(watched)
        self._drop_ended()
        self._next_ns = now_ns + _QUICK.interval_ns(time.thread_time_ns() - scanned_ns)

    def is_idle(self) -> bool:
        """Whether no job holds cores of the node."""
        return not any(job.live for job in self._jobs.jobs.values())

    async def until_due(self) -> None:
        """Wait until the next sample is due."""
        if self.is_idle():
            await next_beat(_IDLE_S)
        else:
            await asyncio.sleep(max(0.0, (self._next_ns - time.monotonic_ns()) / NS_PER_S))

    def adopted(self) -> None:
        """Take over adopted jobs, so that their earlier usage is not charged again."""
        for job in self._jobs.jobs.values():
            if job.live:
                look = self._look(job, adopted=True)
                look.charged_ns, look.core_ns = job.cpu_ns, job.core_ns

    def mask_changes(self, job: Job) -> None:
        """Account for a job before its cores change: usage until now counts for the old cores."""
        now_ns = time.monotonic_ns()
        job.settle(now_ns)
        look = self._look(job)
        if self._clock.by_cpu_ns(job.id) is not None:
            self._read_by_cpu(job, look, now_ns)
        elif job.threads <= _SCAN_AT_ONCE_MAX:
            self._scan(job, now_ns)
        else:
            look.skip = True

    def close(self) -> None:
        """Close the files of all jobs."""
        for look in self._looks.values():
            look.scanner.close()

    def _look(self, job: Job, *, adopted: bool = False) -> _Look:
        look = self._looks.get(job.id)
        if look is not None and look.job is not job:
            # The usage of an earlier attempt must not be subtracted from this attempt.
            look.scanner.close()
            look = None
        if look is None:
            look = _Look(
                job=job,
                scanner=ThreadScanner(self._files, adopted=adopted),
                by_cpu_ns=None if adopted else [],
            )
            job.residual.rule = self._rules.alarm
            self._looks[job.id] = look
        return look

    def _read(self, job: Job, now_ns: int) -> None:
        look = self._look(job)
        job.settle(now_ns)
        if not look.members and not self._clock.by_group:
            look.members = members(job)
        job.cpu_ns = max(job.cpu_ns, self._clock.read_ns(job.id, job.keeper, look.members))
        self._read_by_cpu(job, look, now_ns)

    def _read_by_cpu(self, job: Job, look: _Look, now_ns: int) -> None:
        now = self._clock.by_cpu_ns(job.id)
        if now is None:
            return
        used: dict[int, int] = {}
        if look.by_cpu_ns is not None:
            before = look.by_cpu_ns or [0] * len(now)
            used = {cpu: now[cpu] - before[cpu] for cpu in range(min(len(now), len(before)))}
        look.by_cpu_ns = now
        self._count(job, used, now_ns)

    def _scan(self, job: Job, now_ns: int) -> None:
        look = self._look(job)
        full = look.scans % _FULL_EVERY == 0 or not look.members
        look.scans += 1
        if full:
            found = self._clock.processes(job.id)
            look.members = members(job) if found is None else found
        scan = look.scanner.scan(look.members, switches=full)
        job.threads, job.runnable, job.memory_bytes = scan.threads, scan.runnable, scan.memory_bytes
        job.memory_bytes_max = max(job.memory_bytes_max, scan.memory_bytes)
        self._jobs.orders.check_memory(job)
        job.voluntary_switches += scan.voluntary
        job.involuntary_switches += scan.involuntary
        since_ns = now_ns - look.scanned_ns if look.scanned_ns else 0
        job.excess_runnable_ns += max(0, scan.runnable - len(job.held)) * since_ns
        look.scanned_ns = now_ns
        if self._clock.by_cpu_ns(job.id) is None:
            self._count(job, {} if look.skip else scan.used_ns, now_ns)
        look.skip = False

    def _count(self, job: Job, used: dict[int, int], now_ns: int) -> None:
        if not job.residual.add(now_ns, used, job.held):
            return
        loads = {cpu: round(load, 3) for cpu, load in job.residual.loads().items()}
        if job.residual.alarm:
            logs.warning("residual_alarm", job=job.id, held=job.held, load_by_cpu=loads)
        else:
            logs.info("residual_alarm_over", job=job.id, held=job.held, load_by_cpu=loads)
        self._on_alarm()

    def _share_energy(self, now_ns: int) -> None:
        duration_ns = now_ns - self._last_ns
        total_uj = self._power.package_energy_uj()
        energy_uj = total_uj - self._last_uj
        if energy_uj <= 0:
            # The counters have not been read since. The usage is charged with the next step.
            return
        self._last_ns, self._last_uj = now_ns, total_uj
        self._idle.observe(energy_uj, duration_ns, quiet=not self._looks)
        idle_uj = min(energy_uj, self._idle.power_uw * duration_ns // NS_PER_S)
        by_id: dict[str, Job] = {job.id: job for job in self._jobs.jobs.values()}
        looks = {i: look for i, look in self._looks.items() if by_id.get(i) is look.job}
        used = {job_id: by_id[job_id].cpu_ns - look.charged_ns for job_id, look in looks.items()}
        for job_id, share_uj in shares(energy_uj - idle_uj, used).items():
            by_id[job_id].energy_uj += share_uj
            looks[job_id].charged_ns = by_id[job_id].cpu_ns
        # The idle energy of cores without a job is charged to no job.
        all_ns = max(1, self._rules.cpus * duration_ns)
        for job_id, look in looks.items():
            job = by_id[job_id]
            held_ns = min(job.core_ns - look.core_ns, all_ns)
            job.idle_energy_uj += idle_uj * held_ns // all_ns
            look.core_ns = job.core_ns

    def _drop_ended(self) -> None:
        live = {job.id for job in self._jobs.jobs.values() if job.live}
        for job_id in self._looks.keys() - live:
            self._looks.pop(job_id).scanner.close()


def _to_be_read(job: Job) -> bool:
    """Whether the job runs, or has just ended and is not yet recorded."""
    return job.state is not JobState.STARTING and not job.over.is_set()
