"""How a job ends: its keeper is watched, what it wrote down is read, what held the job removed.

The first process of a job may end long before what it has started; the keeper ends last, or it was
killed, and then the agent ends the rest by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import snapshot_folder
from wattfold.nodeagent.adapters.epoch_file import EpochFiles
from wattfold.nodeagent.adapters.processes import Watch
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.memory import over_memory_text
from wattfold.nodeagent.service.background import Spawn
from wattfold.nodeagent.service.job_files import JobFiles
from wattfold.nodeagent.service.launching import JobPorts
from wattfold.nodeagent.service.leaving import Leaving
from wattfold.nodeagent.service.records import Job, JobState, Saving

_KEEPER_LOST = "its keeper was killed"


class JobEnds:
    """Of the jobs of a node. ``over``: what is to be done when one has ended and is on disk."""

    def __init__(
        self,
        ports: JobPorts,
        files: JobFiles,
        epochs: EpochFiles,
        leaving: Leaving,
        spawn: Spawn,
        over: Callable[[Job], None],
    ) -> None:
        self._ports = ports
        self._files = files
        self._epochs = epochs
        self._leaving = leaving
        self._spawn = spawn
        self._over = over
        self.before_end: Callable[[], None] = lambda: None
        """Called when a job has ended and before its figures are written down."""

    def watch(self, job: Job) -> None:
        """Sees to its end from now on, which may have come already."""
        job.watch = Watch(job.keeper, job.keeper_ticks, lambda: self._keeper_ended(job))
        job.first_watch = Watch(job.pid, job.pid_ticks, lambda: self._first_ended(job))

    def lose(self, job: Job, why: str) -> None:
        """It is over, and nobody knows how."""
        job.state = JobState.LOST
        job.message = f"exit status unknown: {why}"
        job.ended_ns = time.monotonic_ns() if job.boot_id == self._ports.boot_id else job.started_ns
        self._finish(job)

    def _first_ended(self, job: Job) -> None:
        if job.live:
            if self._ports.firmware is not None:
                # Its throttle would continue what is stopped to be killed.
                self._ports.firmware.release(job.id)
            self._spawn(self._leaving.count(job))

    async def _end_strays(self, job: Job) -> None:
        await self._leaving.kill_without_keeper(job)
        if job.live:
            self.lose(job, _KEEPER_LOST)

    def _keeper_ended(self, job: Job) -> None:
        if job.starting is not None:
            job.starting.reap()
        record = self._files.end_of(job.id)
        if record is not None and (job.asked or job.epochs):
            self._spawn(self._end_looked_at(job, record))
            return
        if record is not None:
            self._end(job, record)
            return
        logs.warning("keeper_lost", job=job.id, keeper=job.keeper, pid=job.pid)
        # The number may be another process soon.
        job.keeper = 0
        job.watch = Watch(job.pid, job.pid_ticks, lambda: self._spawn(self._end_strays(job)))

    async def _end_looked_at(self, job: Job, record: dict[str, object]) -> None:
        """The end of a job that was to save: whether it has, in doubt it has; of a training, what
        its snapshot holds."""
        if job.epochs:
            await self._epochs.last(job)
        if job.asked:
            after = await snapshot_folder.look(job.snapshot_path, elsewhere=job.steps_only)
            if job.saving is not Saving.KILLED:
                same = after == job.snapshot_before != snapshot_folder.UNKNOWN
                job.saving = Saving.UNSAVED if same else Saving.SAVED
            if job.saving is Saving.SAVED and job.snapshot_path:
                job.snapshot_bytes = await snapshot_folder.size_bytes(job.snapshot_path)
        self._end(job, record)

    def _end(self, job: Job, record: dict[str, object]) -> None:
        try:
            job.exit_code = int(str(record["exit_code"]))
            job.signal = int(str(record["signal"]))
            job.ended_ns = int(str(record["ended_ns"]))
            job.cpu_ns = max(job.cpu_ns, int(str(record["cpu_ns"])))
            left = int(str(record.get("left", 0)))
        except (KeyError, ValueError) as error:
            self.lose(job, f"the record of its exit status is damaged: {error!r}")
            return
        job.message = f"{left} processes could not be killed" if left else ""
        if (job.exit_code or job.signal) and (job.over_memory or self._ports.memory.hit(job.id)):
            job.message = over_memory_text(job.memory_limit_bytes)
        job.state = JobState.ENDED
        self.before_end()
        self._finish(job)

    def _finish(self, job: Job) -> None:
        logs.info(
            "job_ended",
            job=job.id,
            state=job.state.value,
            exit_code=job.exit_code,
            signal=job.signal,
            cpu_ns=job.cpu_ns,
            note=job.message,
        )
        try:
            self._files.save(job)
        except Refused as error:
            # The exit file of the keeper still tells it to the next agent.
            logs.warning("job_end_not_saved", job=job.id, why=error)
        self._over(job)
