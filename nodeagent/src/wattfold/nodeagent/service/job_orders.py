"""What a job is told: to take a signal, to end, to stand still, to go on.

It ends in its own time, by `ends`; one that does not is killed after its grace time.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import snapshot_folder
from wattfold.nodeagent.core.called_off import CalledOff
from wattfold.nodeagent.core.errors import InvalidRequest, Refused, WrongState
from wattfold.nodeagent.service.background import Spawn
from wattfold.nodeagent.service.job_files import JobFiles
from wattfold.nodeagent.service.job_processes import members, signal_group
from wattfold.nodeagent.service.launching import JobPorts
from wattfold.nodeagent.service.leaving import Leaving
from wattfold.nodeagent.service.records import Job, JobState, Saving
from wattfold.nodeagent.service.suspending import Suspending
from wattfold.nodeagent.service.telling import Telling

GRACE_NS_MAX = 3600 * NS_PER_S


class JobOrders:
    """To the jobs of a node."""

    def __init__(
        self,
        jobs: Mapping[JobId, Job],
        ports: JobPorts,
        files: JobFiles,
        leaving: Leaving,
        spawn: Spawn,
    ) -> None:
        self._jobs = jobs
        self._ports = ports
        self._files = files
        self._leaving = leaving
        self._spawn = spawn
        self._suspending = Suspending(ports.groups, ports.firmware, members)
        self._called_off = CalledOff()

    def signal(self, job_id: str, number: int, grace_ns: int) -> bool:
        """Signals the process group of a job; False if it does not run here. Raises Refused."""
        if not 1 <= number < signal.NSIG:
            raise InvalidRequest(f"signal {number} is outside 1..{signal.NSIG - 1}")
        if grace_ns > GRACE_NS_MAX:
            raise InvalidRequest(f"grace {grace_ns} ns is above {GRACE_NS_MAX} ns")
        job = self._jobs.get(JobId(job_id))
        if job is None or job.state is not JobState.RUNNING:
            return False
        if number in (signal.SIGTERM, signal.SIGKILL):
            self._go_on(job)
        signal_group(job, number)
        self._steer_throttle(job, number)
        if number == signal.SIGTERM:
            # A stopped job takes SIGTERM only after it is continued.
            signal_group(job, signal.SIGCONT)
            self._spawn(self._kill_later(job, grace_ns / NS_PER_S))
        return True

    async def end_attempt(
        self, job_id: str, attempt: int, number: int, grace_ns: int, *, saves: bool = False
    ) -> bool:
        """Ends one attempt of a job (0: whichever there is), after a signal and time to obey it.

        A signal other than SIGTERM goes to the processes that take it, and to those alone: see
        `Telling`. ``saves``: it is to go on later, so its snapshot folder is looked at. False if
        that attempt does not run here: then it will not start here either. Raises Refused.
        """
        begins = self._jobs.get(JobId(job_id))
        if begins is not None and begins.state is JobState.STARTING:
            async with begins.lock:
                pass  # It runs now, or could not be started.
        job = self._attempt(job_id, attempt)
        if job is not None and saves and not job.asked:
            before = await snapshot_folder.look(job.snapshot_path, elsewhere=job.steps_only)
            job.asked, job.snapshot_before = True, before
            self._files.note(job)
            job = self._attempt(job_id, attempt)
        if job is None:
            if attempt:
                self._called_off.add(JobId(job_id), attempt, time.monotonic_ns())
            return False
        if number == signal.SIGTERM:
            return self.signal(job_id, number, grace_ns)
        if not 1 <= number < signal.NSIG or grace_ns > GRACE_NS_MAX:
            raise InvalidRequest(f"signal {number} with grace {grace_ns} ns cannot end a job")
        self._go_on(job)
        telling = Telling(job, number, lambda: members(job))
        logs.info(
            "job_end_requested", job=job.id, signal=number, told=telling.look(), grace_ns=grace_ns
        )
        self._spawn(telling.follow())
        self._spawn(self._kill_later(job, grace_ns / NS_PER_S))
        return True

    def check_start(self, job_id: JobId, attempt: int) -> None:
        """Raises WrongState for an attempt that was to end before it came."""
        if self._called_off.stands(job_id, attempt, time.monotonic_ns()):
            logs.warning("launch_cancelled", job=job_id, attempt=attempt)
            raise WrongState(f"job {job_id}: attempt {attempt} was cancelled before it arrived")

    async def suspend(self, job_id: str, attempt: int, *, suspended: bool) -> bool:
        """Has a job stand still, or go on; False if that attempt does not run here.

        One that was told to end does not stand still any more: an order to stop it that comes late
        would cost it its snapshot. Raises Refused.
        """
        job = self._attempt(job_id, attempt)
        if job is None:
            return False
        async with job.lock:
            # Looked at here, as it may have waited for a change of its cores.
            if self._attempt(job_id, attempt) is not job or (suspended and job.ending):
                return False
            # On disk first: what an agent that is killed here leaves stopped, the next one knows.
            before, job.suspended = job.suspended, suspended
            try:
                self._files.save(job)
                (self._suspending.stop if suspended else self._suspending.go_on)(job)
            except Refused:
                job.suspended = before
                raise
        logs.info("job_suspended" if suspended else "job_resumed", job=job.id)
        return True

    def stay_suspended(self, job: Job) -> None:
        """Has a job that a new agent has taken over stand still, if it did."""
        if not job.suspended:
            return
        try:
            self._suspending.stop(job)
        except Refused as error:
            logs.warning("job_not_suspended", job=job.id, why=error)

    def kill(self, job: Job) -> None:
        """Kills it until it has ended; returns at once."""
        self._spawn(self._leaving.kill(job))

    def check_memory(self, job: Job) -> None:
        """Ends a job that has used more memory than it may. Called when that was looked at."""
        if not job.memory_limit_bytes or job.over_memory or not job.live:
            return
        seen = job.memory_bytes if self._ports.memory.watched else 0
        if seen <= job.memory_limit_bytes and not self._ports.memory.hit(job.id):
            return
        job.over_memory = True
        self._files.note(job)
        logs.warning(
            "job_over_memory",
            job=job.id,
            limit_bytes=job.memory_limit_bytes,
            seen_bytes=job.memory_bytes,
        )
        if self._ports.firmware is not None:
            self._ports.firmware.release(job.id)
        self.kill(job)

    async def end_all(self, grace_s: float) -> None:
        """Ends all jobs and waits for it."""
        running = [job for job in self._jobs.values() if job.live]
        for job in running:
            self.signal(job.id, signal.SIGTERM, int(grace_s * NS_PER_S))
        for job in running:
            await job.over.wait()

    def _attempt(self, job_id: str, attempt: int) -> Job | None:
        """An attempt of a job (0: whichever there is), if it runs here."""
        job = self._jobs.get(JobId(job_id))
        runs = job is not None and job.state is JobState.RUNNING
        return job if runs and job is not None and attempt in (0, job.attempt) else None

    def _go_on(self, job: Job) -> None:
        """A job that is to end is not suspended any more, and will not be."""
        job.ending = True
        if job.suspended:
            job.suspended = False
            self._suspending.go_on(job)
        self._files.note(job)

    def _steer_throttle(self, job: Job, number: int) -> None:
        firmware = self._ports.firmware
        if firmware is None:
            return
        if number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP):
            firmware.release(job.id)
        elif number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGCONT):
            firmware.suspend(job.id, suspended=number != signal.SIGCONT)

    async def _kill_later(self, job: Job, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await job.over.wait()
        if job.live:
            logs.warning("job_killed_after_grace", job=job.id, grace_s=grace_s)
            if job.asked:
                job.saving = Saving.KILLED
                self._files.note(job)
            await self._leaving.kill(job)
