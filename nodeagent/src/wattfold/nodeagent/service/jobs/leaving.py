"""Jobs whose first process has ended while other processes are alive: killed, counted, reported.

The keeper of a job kills the processes that remain after the first process, and ends when none is
left. The agent adds two functions: it kills jobs that do not end on request or whose keeper was
killed, and it counts the remaining processes for log and telemetry. It never gives up: the cores of
a job are free only when none of its processes is alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.job_groups import JobGroups
from wattfold.nodeagent.ending import end_round
from wattfold.nodeagent.service.jobs.records import Job

_COUNT_S = 1.0
_FIRST_COUNT_S = 0.1
"""Most jobs leave no process, or only processes that are killed immediately. These are not logged.
"""
_LOG_S_MIN = 2.0
_LOG_S_MAX = 3600.0
_KILL_S_MIN = 0.1
_KILL_S_MAX = 5.0


class Leaving:
    """Kills and counts processes. ``members``: of a job; ``marker``: its environment entry."""

    def __init__(
        self,
        groups: JobGroups,
        members: Callable[[Job], list[int]],
        marker: Callable[[Job], bytes],
        on_change: Callable[[], None],
    ) -> None:
        self._groups = groups
        self._members = members
        self._marker = marker
        self._on_change = on_change

    async def count(self, job: Job) -> None:
        """Count the remaining processes after the end of the first process, and report them."""
        pause_s, quiet_s, began_ns = _FIRST_COUNT_S, _LOG_S_MIN, time.monotonic_ns()
        told_ns = 0
        while not await _over_within(job, pause_s):
            pause_s, now_ns = _COUNT_S, time.monotonic_ns()
            before, job.left = job.left, len(await asyncio.to_thread(self._alive, job))
            if job.left and (not told_ns or now_ns - told_ns >= quiet_s * NS_PER_S):
                told_ns, quiet_s = now_ns, min(2 * quiet_s, _LOG_S_MAX)
                since_s = round((now_ns - began_ns) / NS_PER_S, 1)
                logs.warning("job_processes_remaining", job=job.id, alive=job.left, since_s=since_s)
            if before != job.left:
                self._on_change()

    async def kill(self, job: Job) -> None:
        """Kill a job until it has ended."""
        pause_s = _KILL_S_MIN
        while not job.over.is_set():
            await asyncio.to_thread(end_round, self._groups.of(job.id), lambda: self._members(job))
            if await _over_within(job, pause_s):
                return
            pause_s = min(2 * pause_s, _KILL_S_MAX)

    async def kill_without_keeper(self, job: Job) -> None:
        """Kill the remaining processes of a job without a keeper, and return when none is found.

        Processes outside the job's group and not below its first process are found by their
        environment, which a program can clear.
        """
        pause_s = _KILL_S_MIN
        while await asyncio.to_thread(self._strays, job):
            await asyncio.to_thread(end_round, self._groups.of(job.id), lambda: self._strays(job))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _KILL_S_MAX)

    def _strays(self, job: Job) -> list[int]:
        marked = procfs.with_environment(self._marker(job))
        return _living({*self._groups.processes(job.id), *marked, *self._members(job)})

    def _alive(self, job: Job) -> list[int]:
        return _living({*self._groups.processes(job.id), *self._members(job)})


def _living(pids: set[int]) -> list[int]:
    stats = (procfs.read_stat(pid) for pid in sorted(pids))
    return [stat.pid for stat in stats if stat is not None and stat.state not in "ZX"]


async def _over_within(job: Job, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await job.over.wait()
    return job.over.is_set()
