"""End of a job: its keeper is watched, its end record is read, its confinement is removed.

The first process of a job may end long before its children. The keeper ends last. If the keeper was
killed, the agent itself ends the remaining processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import snapshot_folder
from wattfold.nodeagent.adapters.jobs.epoch_file import EpochFiles
from wattfold.nodeagent.adapters.jobs.keeper_source import reap
from wattfold.nodeagent.adapters.jobs.processes import Watch
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.memory import over_memory_text
from wattfold.nodeagent.service.background import Spawn
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.leaving import Leaving
from wattfold.nodeagent.service.jobs.records import Job, JobState, Saving, whole
from wattfold.nodeagent.service.jobs.shells import end_shells, reap_shells

_KEEPER_LOST = "its keeper was killed"


class JobEnds:
    """Ends of the jobs of a node. ``over`` is called when a job has ended and is on disk."""

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
        self.over = over
        self.before_end: Callable[[], None] = lambda: None
        """Called when a job has ended, before its usage is recorded."""

    def watch(self, job: Job) -> None:
        """Handle the end of the job from now on, even if it has already ended."""
        job.watch = Watch(job.keeper, job.keeper_ticks, lambda: self._keeper_ended(job))
        job.first_watch = Watch(job.pid, job.pid_ticks, lambda: self._first_ended(job))

    def lose(self, job: Job, why: str) -> None:
        """Record that the job is over with an unknown exit status."""
        job.state = JobState.LOST
        job.message = f"exit status unknown: {why}"
        job.ended_ns = time.monotonic_ns() if job.boot_id == self._ports.boot_id else job.started_ns
        self._finish(job)

    def end_adopted(self, job: Job) -> None:
        """Record that all steps of an adopted job have ended. Its exit status is known by then."""
        job.state, job.ended_ns = JobState.ENDED, time.monotonic_ns()
        self.before_end()
        self._finish(job)

    def _first_ended(self, job: Job) -> None:
        if job.live:
            if self._ports.firmware is not None:
                # Its throttle would continue stopped processes that are to be killed.
                self._ports.firmware.release(job.id)
            self._spawn(self._leaving.count(job))

    async def _end_strays(self, job: Job) -> None:
        await self._leaving.kill_without_keeper(job)
        if job.live:
            self.lose(job, _KEEPER_LOST)

    def _keeper_ended(self, job: Job) -> None:
        reap(job.keeper)
        record = self._files.end_of(job.id)
        if record is not None and (job.asked or job.epochs or job.shell_host):
            self._spawn(self._end_looked_at(job, record))
            return
        if record is not None:
            self._end(job, record)
            return
        logs.warning("keeper_lost", job=job.id, keeper=job.keeper, pid=job.pid)
        # Its PID may soon belong to another process.
        job.keeper = 0
        job.watch = Watch(job.pid, job.pid_ticks, lambda: self._spawn(self._end_strays(job)))

    async def _end_looked_at(self, job: Job, record: dict[str, object]) -> None:
        """End the shells of a job, and record its end after a look at its snapshot.

        If it is unknown whether the job has saved a snapshot, it counts as saved. A training job
        also gets the number of epochs in its snapshot.
        """
        await end_shells(job)
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
            job.exit_code = whole(record["exit_code"], "exit_code")
            job.signal = whole(record["signal"], "signal")
            job.ended_ns = whole(record["ended_ns"])
            job.cpu_ns = max(job.cpu_ns, whole(record["cpu_ns"]))
            left = whole(record.get("left", 0))
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
        reap_shells(job)
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
            self._files.save_durably(job)
        except Refused as error:
            # The exit file of the keeper still reports the end to the next agent.
            logs.warning("job_end_not_saved", job=job.id, reason=error)
        self.over(job)
