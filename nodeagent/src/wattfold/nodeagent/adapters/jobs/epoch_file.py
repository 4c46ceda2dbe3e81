"""Reader of the epoch reports of training jobs next to their snapshots, off the event loop.

The folder belongs to the job and may be on a server that does not answer. Two threads read for all
jobs, so that hanging reads delay only other reports. Each job has at most one read in progress. A
file that is not a plain file is closed immediately, and only two numbers are read from its
contents.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.beat import next_beat
from wattfold.nodeagent.core.epoch_report import NAME, TAIL_BYTES, EpochReport, parse
from wattfold.nodeagent.service.jobs.records import Job

LOOK_EVERY_S = 0.5
END_S_MAX = 1.0
"""Maximum wait for the last report at the end of a job."""
_THREADS = 2


class EpochFiles:
    """The reports of all training jobs of a node."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="epochs")
        self._under_way: set[JobId] = set()

    async def watch(self, jobs: Mapping[JobId, Job]) -> None:
        """Read the reports of running jobs periodically."""
        while True:
            await next_beat(LOOK_EVERY_S)
            self.look_at([job for job in jobs.values() if job.live and job.epochs])

    def look_at(self, jobs: Iterable[Job]) -> list[asyncio.Task[None]]:
        """Begin to read the reports of jobs without a read in progress."""
        loop = asyncio.get_running_loop()
        return [loop.create_task(self._read(job)) for job in jobs if job.id not in self._under_way]

    async def last(self, job: Job) -> None:
        """Read the last report of a job that has ended, if it is available in time."""
        try:
            async with asyncio.timeout(END_S_MAX):
                await self._read(job)
        except TimeoutError:
            return

    def close(self) -> None:
        """End the threads without waiting for hanging reads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _read(self, job: Job) -> None:
        self._under_way.add(job.id)
        try:
            loop = asyncio.get_running_loop()
            told = await loop.run_in_executor(self._pool, read, job.snapshot_path, job.attempt)
        finally:
            self._under_way.discard(job.id)
        if told is not None:
            job.report = told


def read(folder: str, attempt: int) -> EpochReport | None:
    """Return the report in a folder; None if there is none or it cannot be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        fd = os.open(f"{folder}/{NAME}", flags)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        return parse(os.pread(fd, TAIL_BYTES, max(0, found.st_size - TAIL_BYTES)), attempt)
    except OSError:
        return None
    finally:
        os.close(fd)
