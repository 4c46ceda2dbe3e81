"""The tasks (ranks) of jobs: identification of their processes, and confinement to their cores.

A process belongs to the task whose rank its environment states, or else to its parent's task. There
is no other source, because launchers do not report that they have started a rank. So the processes
of a job with several tasks are checked periodically, more often while ranks are missing. A program
may state wrong ranks, but only to its own disadvantage: all cores of a division belong to the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import Topology
from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.task_affinity import Place, hold, hold_once, hold_thread
from wattfold.nodeagent.core.residual import Pace
from wattfold.nodeagent.core.tasks import divide, local_rank
from wattfold.nodeagent.service.jobs.records import Job

_PACE = Pace(share=0.003, interval_ns_min=50 * NS_PER_MS, interval_ns_max=5 * NS_PER_S)
_QUIET_NS = NS_PER_S
"""Interval of checks when all ranks were found, or none has appeared for long."""
_READING_NS_MAX = 10 * NS_PER_MS
"""Maximum time for reading environments in one check (20 us each, or more). The rest wait."""
_PROCESSES_MAX = 2048
"""Maximum number of processes. With more, the youngest stay on their parents' cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    ticks: int
    task: int


class NodeTasks:
    """Finds tasks and confines them to their cores. ``members`` returns the processes of a job."""

    def __init__(self, topology: Topology, members: Callable[[Job], list[int]]) -> None:
        self._topology = topology
        self._members = members
        self._known: dict[JobId, dict[int, _Known]] = {}

    def divide(self, job: Job, cpus: CpuSet) -> tuple[CpuSet, ...]:
        """Return the cores of each task of this mask; empty for a job with one task."""
        if job.tasks_per_node == 1:
            return ()
        return divide(cpus, job.tasks_per_node, self._topology, job.division)

    def cpus_of(self, job: Job, pid: int) -> CpuSet:
        """Return the cores for a process of the job."""
        if job.owner:
            found = procfs.ancestor(pid, {step.keeper: name for name, step in job.steps.items()})
            step = next((step for step in job.steps.values() if step.keeper == found), None)
            return job.cpus if step is None else step.cpus_of(pid, job.cpus, self._topology)
        known = self._known.get(job.id, {}).get(pid)
        own = job.berth if job.resident else job.cpus
        return job.division[known.task] if known and job.division else own

    def hold(self, job: Job, others: CpuSet | None = None) -> None:
        """Confine all tasks to their permitted cores; other processes to ``others``, if given.

        Raises OSError or Refused.
        """
        hold(f"job {job.id}", lambda: self._places(job, job.allowed, others))

    def allow(self, job: Job, allowed: tuple[CpuSet, ...]) -> None:
        """Confine all tasks to other cores than before. Raises OSError or Refused."""
        before, job.allowed = job.allowed, allowed
        hold(f"job {job.id}", lambda: self._places(job, before, None))

    def arrived(self, job: Job, pid: int) -> None:
        """Give a process of the job its cores as soon as its shim connects."""
        if not job.division:
            return
        task = self._task(job, pid)
        if task is not None:
            with contextlib.suppress(OSError):
                for thread in procfs.threads_of(pid):
                    hold_thread(thread, Place(cpus=job.allowed[task]))

    async def follow(self, job: Job) -> None:
        """Search for tasks until the job has ended."""
        pause_ns, complained = _PACE.interval_ns_min, False
        while job.live:
            started_ns, found = time.thread_time_ns(), job.tasks_found
            try:
                hold_once(self._places(job, job.allowed, None))
            except OSError as error:
                if not complained:
                    logs.warning("task_masks_not_set", job=job.id, reason=error)
                complained = True
            if job.tasks_found != found:
                logs.info("tasks_found", job=job.id, tasks=job.tasks_found)
                pause_ns = _PACE.interval_ns_min
            elif job.tasks_found >= job.tasks_per_node:
                pause_ns = _QUIET_NS
            else:
                pause_ns = min(2 * pause_ns, _QUIET_NS)
            cost_ns = time.thread_time_ns() - started_ns
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause_ns, _PACE.interval_ns(cost_ns)) / NS_PER_S):
                    await job.over.wait()
        self._known.pop(job.id, None)

    def _places(
        self, job: Job, before: tuple[CpuSet, ...], others: CpuSet | None
    ) -> dict[int, Place]:
        places: dict[int, Place] = {}
        for pid, task in self._find(job).items():
            if task is not None:
                places[pid] = Place(cpus=job.allowed[task], before=before[task])
            elif others is not None:
                places[pid] = Place(cpus=others, exact=True)
        return places

    def _find(self, job: Job) -> dict[int, int | None]:
        """Return all processes of the job, parents first, with their tasks."""
        known, until_ns = self._known.get(job.id, {}), time.thread_time_ns() + _READING_NS_MAX
        fresh: dict[int, _Known] = {}
        found: dict[int, int | None] = {}
        for pid in self._members(job)[:_PROCESSES_MAX]:
            stat = procfs.read_stat(pid)
            if stat is None or stat.state in "ZX":
                continue
            old = known.get(pid)
            if old is not None and old.ticks == stat.start_ticks:
                task: int | None = old.task
            else:
                task = _stated(job, pid) if time.thread_time_ns() < until_ns else None
                task = found.get(stat.parent) if task is None else task
            found[pid] = task
            if task is not None:
                fresh[pid] = _Known(ticks=stat.start_ticks, task=task)
        self._known[job.id] = fresh
        job.tasks_found = len({known.task for known in fresh.values()})
        return found

    def _task(self, job: Job, pid: int) -> int | None:
        """Return the task of a process, or else of its nearest ancestor with a stated rank."""
        known = self._known.setdefault(job.id, {})
        task, asked, stat = _stated(job, pid), pid, procfs.read_stat(pid)
        while task is None and stat is not None and asked != job.keeper and stat.parent > 1:
            asked = stat.parent
            if asked in known:
                task = known[asked].task
            else:
                task, stat = _stated(job, asked), procfs.read_stat(asked)
        own = procfs.read_stat(pid)
        if task is not None and own is not None:
            known[pid] = _Known(ticks=own.start_ticks, task=task)
        return task


def _stated(job: Job, pid: int) -> int | None:
    rank = local_rank(procfs.environment(pid))
    # More ranks than announced share the tasks.
    return None if rank is None else rank % job.tasks_per_node
