"""Repair of threads outside the masks of their jobs, on nodes with masks by affinity.

A thread cannot leave a cpuset, but it can change its affinity (as bindings of MPI or OpenMP
runtimes do). Without a cpuset, this module finds such threads and moves them back, reports the job,
and lets the job keep cores that it never leaves. Between two checks such a thread may run on cores
of other jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import next_beat
from wattfold.nodeagent.adapters.jobs.cpuset import MaskControl, MaskMechanism
from wattfold.nodeagent.core.residual import Pace
from wattfold.nodeagent.service.jobs.records import Job

_PACE = Pace(share=0.003, interval_ns_min=NS_PER_S, interval_ns_max=10 * NS_PER_S)
_SETTLE_S = 0.02
_LOOKS = 3


class Strays:
    """``members`` returns the processes of a job. ``on_change`` is called after a change."""

    def __init__(
        self,
        jobs: Mapping[JobId, Job],
        masks: MaskControl,
        members: Callable[[Job], list[int]],
        on_change: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._masks = masks
        self._members = members
        self._on_change = on_change

    async def watch(self) -> None:
        """Check all jobs until cancelled. Returns immediately on nodes with cpusets."""
        while self._masks.mechanism is MaskMechanism.AFFINITY:
            started_ns = time.thread_time_ns()
            for job in list(self._jobs.values()):
                # A change of mask checks its job itself.
                if job.live and job.pid and not (job.owner or job.lock.locked()):
                    # Of cores that it did not leave, too: these are reported while it stays there.
                    self._look(job, job.cpus or job.berth)
            cost_ns = time.thread_time_ns() - started_ns
            await next_beat(_PACE.interval_ns(cost_ns) / NS_PER_S)

    async def settled(self, job: Job, cpus: CpuSet) -> CpuSet:
        """Return the cores it may run on, after time to set its affinity following a change."""
        if job.owner or self._masks.mechanism is not MaskMechanism.AFFINITY:
            return cpus
        for _ in range(_LOOKS):
            await asyncio.sleep(_SETTLE_S)
            if not self._look(job, cpus):
                return cpus
        return cpus | job.strays

    def _look(self, job: Job, cpus: CpuSet) -> bool:
        """Move threads outside these cores back. Returns whether there were any."""
        before, job.strays = job.strays, self._masks.bring_back(self._members(job), cpus)
        job.stray_repairs += bool(job.strays)
        if job.strays and not before:
            logs.warning("threads_outside_mask", job=job.id, held=cpus, found_on=job.strays)
        if bool(before) != bool(job.strays):
            self._on_change()
        return bool(job.strays)
