"""Records ended jobs in the history file without a delay of the event loop.

The loop only turns each ended job into a row. A thread writes the rows of a moment together. At the
start, the ended jobs of the state are compared with the file, so rows that a killed coordinator did
not write are added. While the file cannot be written, rows wait in memory and the coordinator works
as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.contract.repeats import Repeats
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.history.file import DROPPED_MAX, HistoryError, HistoryFile
from wattfold.coordinator.adapters.history.rows import EndedJob, row_of
from wattfold.coordinator.adapters.history.watts import EvenShare, traded
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.coordinator")

WRITE_WITHIN_S = 0.5
RETRY_S = 5.0
FLUSH_S = 5.0
ROWS_PER_WRITE = 2_000
PENDING_MAX = 100_000
"""Maximum number of unwritten rows in memory. Further jobs are added later from the state."""
DROP_EVERY_S = 3600.0
KEEP_DAYS = 731
"""Default of `[history] keep_days`: two years."""
S_PER_DAY = 86_400


class HistoryRecorder:
    """Follower of the service: `note` gets its changes. Call `start` in the running loop."""

    def __init__(
        self,
        path: Path,
        series: str,
        clock: Clock,
        state: Callable[[], State],
        policy: Callable[[], str],
        keep_days: int,
        retry_s: float = RETRY_S,
    ) -> None:
        """``series`` identifies the journal. Rows older than ``keep_days`` are deleted."""
        self._file = HistoryFile(path, series)
        self._clock = clock
        self._state = state
        self._policy = policy
        self._even = EvenShare()
        self._keep_s = keep_days * S_PER_DAY
        self._retry_s = retry_s
        self._recorded: dict[JobId, int] | None = None
        """Attempts of the recorded jobs of the state; None until the file was read."""
        self._pending: dict[JobId, EndedJob | None] = {}
        """Rows to write; None deletes the row of a job that was started again."""
        self._behind = False
        """Whether the state has jobs for which there was no room."""
        self._dropped_s = float("-inf")
        self._warnings = Repeats()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Compare the file with the state, then record what it lacks."""
        self._begin()

    def note(self, changes: Changes) -> None:
        """Add the rows of jobs that have ended, and delete rows of jobs that were started again."""
        recorded = self._recorded
        if recorded is None:
            return  # The comparison at the start examines all jobs.
        jobs = self._state().jobs
        for job_id in list(jobs) if changes.everything else changes.jobs:
            job = jobs.get(job_id)
            if job is None:
                recorded.pop(job_id, None)
            elif job.final:
                if recorded.get(job_id) != job.attempt:
                    watts = traded(job, self._state(), self._even)
                    row = row_of(job, self._clock, self._policy(), watts)
                    self._add(job_id, row, job.attempt)
            elif job_id in recorded:
                self._add(job_id, None, 0)
        if self._pending:
            self._write_in(WRITE_WITHIN_S)

    async def flush(self) -> None:
        """Try to write all pending rows, once and within `FLUSH_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._idle()
                if self._pending or self._recorded is None:
                    self._begin()
                    await self._idle()

    async def close(self) -> None:
        """Write pending rows, if the file can be written, and close it."""
        await self.flush()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is None or self._task.done():
            self._file.close()

    async def _idle(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    def _add(self, job_id: JobId, row: EndedJob | None, attempt: int) -> None:
        assert self._recorded is not None
        if len(self._pending) >= PENDING_MAX and job_id not in self._pending:
            self._behind = True
            return
        self._pending[job_id] = row
        if row is None:
            del self._recorded[job_id]
        else:
            self._recorded[job_id] = attempt

    def _write_in(self, delay_s: float) -> None:
        waits = self._timer is not None and not self._timer.cancelled()
        if not waits and (self._task is None or self._task.done()):
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(self._after)

    def _after(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is None:
            if self._pending:
                self._write_in(WRITE_WITHIN_S)
            return
        if not isinstance(error, HistoryError):
            log.error(line("history_defect"), exc_info=error)
        self._warn(error)
        self._write_in(self._retry_s)

    async def _work(self) -> None:
        if self._recorded is None:
            await self._compare()
        while self._pending or self._behind:
            await self._write_some()
            if self._behind and not self._pending:
                self._behind = False
                self.note(Changes(everything=True))
        if time.monotonic() >= self._dropped_s + DROP_EVERY_S:
            await self._drop_old()

    async def _compare(self) -> None:
        job_ids = list(self._state().jobs)
        known = await asyncio.to_thread(self._file.known, job_ids)
        self._recorded = {JobId(job): attempts for job, attempts in known.items()}
        self.note(Changes(everything=True))

    async def _write_some(self) -> None:
        part = {
            job_id: self._pending.pop(job_id)
            for job_id, _ in zip(list(self._pending), range(ROWS_PER_WRITE), strict=False)
        }
        rows = [row for row in part.values() if row is not None]
        gone = [str(job_id) for job_id, row in part.items() if row is None]
        try:
            await asyncio.to_thread(self._file.write, rows, gone)
        except BaseException:
            # Newer rows of the same jobs replace these.
            self._pending = part | self._pending
            raise

    async def _drop_old(self) -> None:
        oldest_ms = round((time.time() - self._keep_s) * 1e3)
        while await asyncio.to_thread(self._file.drop_before, oldest_ms) >= DROPPED_MAX:
            pass
        self._dropped_s = time.monotonic()

    def _warn(self, error: BaseException) -> None:
        count = self._warnings.one_more("history", time.monotonic())
        if count:
            log.warning(
                line(
                    "history_not_written",
                    reason=error,
                    waiting=len(self._pending),
                    tries=count,
                    remedy="free space or repair the file; waiting rows are then written",
                )
            )
