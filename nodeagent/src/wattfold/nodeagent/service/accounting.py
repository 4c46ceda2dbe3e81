"""What jobs use: CPU time, energy, memory, threads, and work outside their masks."""

from __future__ import annotations

import time

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.adapters.cpu_time import CpuClock
from wattfold.nodeagent.core.energy import shares
from wattfold.nodeagent.service.jobs import NodeJobs
from wattfold.nodeagent.service.power import NodePower
from wattfold.nodeagent.service.records import Job, JobState

_FRESH_NS = 100_000_000


class Accounting:
    """Samples all jobs. Energy above idle is shared by the CPU time used since the last sample."""

    def __init__(self, jobs: NodeJobs, power: NodePower, clock: CpuClock, idle_uw: int) -> None:
        self._jobs = jobs
        self._power = power
        self._clock = clock
        self._idle_uw = idle_uw
        self._last_ns = time.monotonic_ns()
        self._last_uj = power.package_energy_uj()
        self._thread_ns: dict[tuple[str, int], int] = {}
        self._charged_ns: dict[str, int] = {}

    def sample(self, *, force: bool = False) -> None:
        """Brings the figures of all jobs up to date, unless they are fresh."""
        now_ns = time.monotonic_ns()
        if now_ns - self._last_ns < _FRESH_NS and not force:
            return
        used: dict[str, int] = {}
        charged: dict[str, int] = {}
        seen: dict[tuple[str, int], int] = {}
        for job in self._jobs.jobs.values():
            if job.state is JobState.RUNNING:
                self._sample_job(job, seen)
            charged[job.id] = job.cpu_ns
            # A job first seen after it has ended was charged by an earlier agent.
            unseen_ns = 0 if job.live else job.cpu_ns
            used[job.id] = job.cpu_ns - self._charged_ns.get(job.id, unseen_ns)
        self._thread_ns = seen
        self._charged_ns = charged
        self._share_energy(used, now_ns)

    def adopted(self) -> None:
        """What adopted jobs have used before this agent is not charged again."""
        self._charged_ns = {job.id: job.cpu_ns for job in self._jobs.jobs.values()}

    def _sample_job(self, job: Job, seen: dict[tuple[str, int], int]) -> None:
        members = self._jobs.members(job)
        job.cpu_ns = max(job.cpu_ns, self._clock.read_ns(job.id, job.keeper, members))
        job.threads = 0
        job.memory_bytes = 0
        for pid in members:
            stat = procfs.read_stat(pid)
            if stat is None:
                continue
            job.threads += stat.threads
            job.memory_bytes += stat.memory_bytes
            self._sample_threads(job, pid, seen)

    def _sample_threads(self, job: Job, pid: int, seen: dict[tuple[str, int], int]) -> None:
        for thread in procfs.threads_of(pid):
            stat = procfs.read_stat(pid, thread)
            if stat is None:
                continue
            key = (job.id, thread)
            seen[key] = stat.own_cpu_ns
            # Sampled: time since the last sample counts where the thread ran last.
            if stat.last_cpu not in job.held:
                job.residual_cpu_ns += max(0, stat.own_cpu_ns - self._thread_ns.get(key, 0))

    def _share_energy(self, used: dict[str, int], now_ns: int) -> None:
        energy_uj = self._power.package_energy_uj()
        idle_uj = self._idle_uw * self._power.packages() * (now_ns - self._last_ns) // NS_PER_S
        above_idle_uj = max(0, energy_uj - self._last_uj - idle_uj)
        self._last_ns, self._last_uj = now_ns, energy_uj
        by_name: dict[str, Job] = {job.id: job for job in self._jobs.jobs.values()}
        for job_id, share_uj in shares(above_idle_uj, used).items():
            by_name[job_id].energy_uj += share_uj
