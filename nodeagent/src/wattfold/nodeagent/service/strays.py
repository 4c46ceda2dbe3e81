"""Threads outside of the masks of their jobs, on nodes where only affinity holds them there.

A cpuset is a wall; an affinity is a setting that any thread may set anew (bindings of MPI or OpenMP
runtimes do). What can be had without a cpuset: such threads are found and set back, the job is told
of, and cores that it does not leave for good stay its own. What cannot: between two looks it may
run on cores of others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.cpuset import MaskControl, MaskMechanism
from wattfold.nodeagent.core.residual import Pace
from wattfold.nodeagent.service.records import Job

_PACE = Pace(share=0.003, interval_ns_min=NS_PER_S, interval_ns_max=10 * NS_PER_S)
_SETTLE_S = 0.02
_LOOKS = 3


class Strays:
    """``members``: the processes of a job. ``on_change``: what is known of a job has changed."""

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
        """Looks at all jobs for ever; returns at once where the kernel holds them."""
        while self._masks.mechanism is MaskMechanism.AFFINITY:
            started_ns = time.thread_time_ns()
            for job in list(self._jobs.values()):
                # A job whose mask is being changed is looked at by who changes it.
                if job.live and job.pid and not job.lock.locked():
                    self._look(job, job.place)
            cost_ns = time.thread_time_ns() - started_ns
            await asyncio.sleep(_PACE.interval_ns(cost_ns) / NS_PER_S)

    async def settled(self, job: Job, cpus: CpuSet) -> CpuSet:
        """The cores it may run on, when it has had time to set its affinity after a change."""
        if self._masks.mechanism is not MaskMechanism.AFFINITY:
            return cpus
        for _ in range(_LOOKS):
            await asyncio.sleep(_SETTLE_S)
            if not self._look(job, cpus):
                return cpus
        return cpus | job.strays

    def _look(self, job: Job, cpus: CpuSet) -> bool:
        """Whether threads were outside; they are set back."""
        before, job.strays = job.strays, self._masks.bring_back(self._members(job), cpus)
        job.stray_repairs += bool(job.strays)
        if job.strays and not before:
            logs.warning("threads_outside_mask", job=job.id, held=cpus, found_on=job.strays)
        if bool(before) != bool(job.strays):
            self._on_change()
        return bool(job.strays)
