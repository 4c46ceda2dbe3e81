"""Delivery of a signal to save and end: to each process of a job that handles it, once.

The signal would end a process that does not handle it, and the job with it. A handler is a certain
sign. A blocked signal may be handled by `sigwait` or a descriptor. But a shell also blocks it while
its handler for SIGCHLD runs, which often happens just after it was continued. So processes that
block the signal are checked again, until they sleep with it, or have run with it for some time.
Before the program has set its handler, no process handles the signal. So the search continues until
a process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_MS
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.procfs import Takes
from wattfold.nodeagent.service.jobs.records import Job

_PAUSE_S_MIN = 0.02
_PAUSE_S_MAX = 1.0
_RAN_NS_MIN = 30 * NS_PER_MS
"""No handler of a shell uses this much CPU time, which is measured in steps of 10 ms."""

_Process = tuple[int, int]
"""PID and start time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TellingLook:
    """First observation of a process in a row with the signal blocked."""

    takes: Takes
    cpu_ns: int


class Telling:
    """One signal to one job. ``members`` returns the processes of the job."""

    def __init__(self, job: Job, number: int, members: Callable[[], list[int]]) -> None:
        self._job = job
        self._number = number
        self._members = members
        self._unsure: dict[_Process, _TellingLook] = {}

    @property
    def done(self) -> bool:
        """Whether a process has been signalled and no process is uncertain."""
        return not self._unsure and any(n == self._number for _, n in self._job.told)

    def look(self) -> int:
        """Signal the processes that handle it and have not been signalled. Returns their number."""
        before, self._unsure, count = self._unsure, {}, 0
        for pid in self._members():
            stat = procfs.read_stat(pid)
            if stat is None or ((pid, stat.start_ticks), self._number) in self._job.told:
                continue
            count += self._meet(stat, before.get((pid, stat.start_ticks)))
        return count

    async def follow(self) -> None:
        """Check again until all have been signalled, or the job is over."""
        pause_s = _PAUSE_S_MIN
        while not self.done:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._job.over.wait()
                    return
            pause_s = min(1.5 * pause_s, _PAUSE_S_MAX)
            if count := self.look():
                logs.info("job_signalled_late", job=self._job.id, signal=self._number, told=count)

    def _meet(self, stat: procfs.Stat, before: _TellingLook | None) -> bool:
        process, takes = (stat.pid, stat.start_ticks), procfs.takes(stat.pid, self._number)
        if takes is Takes.NOT:
            return False
        if takes is not Takes.CAUGHT and not _settled(before, takes, stat.own_cpu_ns):
            first_ns = stat.own_cpu_ns if before is None else before.cpu_ns
            self._unsure[process] = _TellingLook(takes=takes, cpu_ns=first_ns)
            return False
        self._job.told.add((process, self._number))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(stat.pid, self._number)
        return True


def _settled(before: _TellingLook | None, takes: Takes, cpu_ns: int) -> bool:
    """Whether a process that blocks the signal waits for it."""
    if before is None:
        return False
    return before.takes is takes is Takes.WAITS or cpu_ns - before.cpu_ns >= _RAN_NS_MIN
