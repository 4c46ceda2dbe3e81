"""Orders to jobs: signal, end, suspend and resume.

A job ends at its own pace (`job_ends`). A job that does not end is killed after its grace time.
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
from wattfold.nodeagent.adapters.jobs import snapshot_folder
from wattfold.nodeagent.core.called_off import CalledOff
from wattfold.nodeagent.core.errors import InvalidRequest, Refused, WrongState
from wattfold.nodeagent.service.background import Spawn
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.job_processes import members, signal_group
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.leaving import Leaving
from wattfold.nodeagent.service.jobs.records import Job, JobState, Saving, owned
from wattfold.nodeagent.service.jobs.suspending import Suspending
from wattfold.nodeagent.service.jobs.telling import Telling

GRACE_NS_MAX = 3600 * NS_PER_S


class JobOrders:
    """Orders to the jobs of a node."""

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
        self._settled = False

    def deliver(self, job_id: str, attempt: int, number: int) -> bool:
        """Only send a signal to the process group of an attempt (0: any attempt).

        Unlike `signal`, SIGTERM does not end the job. Returns False if the attempt does not run
        here. Raises Refused.
        """
        self._check_owner(job_id)
        if number == signal.SIGTERM and (job := self._attempt(job_id, attempt)) is not None:
            signal_group(job, number)
            self._steer_throttle(job, number)
            return True
        return self._attempt(job_id, attempt) is not None and self.signal(job_id, number, 0)

    def signal(self, job_id: str, number: int, grace_ns: int) -> bool:
        """Signal the process group of a job; False if it does not run here. Raises Refused."""
        self._check_owner(job_id)
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
            # A stopped job receives SIGTERM only after it is continued.
            signal_group(job, signal.SIGCONT)
            self._spawn(self._kill_later(job, grace_ns / NS_PER_S))
        return True

    async def end_attempt(
        self, job_id: str, attempt: int, number: int, grace_ns: int, *, saves: bool = False
    ) -> bool:
        """End one attempt of a job (0: the current attempt), after a signal and a grace time.

        A signal other than SIGTERM goes only to the processes that handle it, see `Telling`.
        ``saves``: the job will continue later, so its snapshot folder is examined. Returns False if
        the attempt does not run here; it will then not start here either. Raises Refused.
        """
        self._check_owner(job_id)
        if (begins := self._jobs.get(JobId(job_id))) is not None:
            await _begun(begins)
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
        """Raise WrongState for an attempt that was ended before it arrived, or after `settle`."""
        if self._settled:
            raise WrongState(f"job {job_id}: this agent stops and starts no further job")
        if self._called_off.stands(job_id, attempt, time.monotonic_ns()):
            logs.warning("launch_cancelled", job=job_id, attempt=attempt)
            raise WrongState(f"job {job_id}: attempt {attempt} was cancelled before it arrived")

    async def suspend(self, job_id: str, attempt: int, *, suspended: bool) -> bool:
        """Suspend or resume a job. Returns False if this attempt does not run here.

        A job that was asked to end is no longer suspended, because a late order to stop it would
        cost it its snapshot. Raises Refused.
        """
        self._check_owner(job_id)
        job = self._attempt(job_id, attempt)
        if job is None:
            return False
        async with job.lock:
            # Checked here, because the lock may have waited for a change of its cores.
            if self._attempt(job_id, attempt) is not job or (suspended and job.ending):
                return False
            # On disk first, so that the next agent knows what a killed agent leaves stopped.
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
        """Suspend an adopted job again if it was suspended."""
        if not job.suspended:
            return
        try:
            self._suspending.stop(job)
        except Refused as error:
            logs.warning("job_not_suspended", job=job.id, reason=error)

    def kill(self, job: Job) -> None:
        """Kill the job until it has ended. Returns immediately."""
        self._spawn(self._leaving.kill(job))

    def check_memory(self, job: Job) -> None:
        """End a job that exceeds its memory limit. Called after each measurement."""
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

    async def settle(self) -> None:
        """Let no further job start, and wait until the starting jobs run.

        Commands that the agent has begun continue after its server has stopped.
        """
        self._settled = True
        await asyncio.gather(*map(_begun, list(self._jobs.values())))

    async def end_all(self, grace_s: float) -> None:
        """Let no further job start, end all jobs, and wait for their ends."""
        self._settled = True
        live = [job for job in self._jobs.values() if job.live and not job.owner]
        await asyncio.gather(*(self._end(job, grace_s) for job in live))

    async def _end(self, job: Job, grace_s: float) -> None:
        await _begun(job)
        self.signal(job.id, signal.SIGTERM, int(grace_s * NS_PER_S))
        if self._jobs.get(job.id) is job:
            await job.over.wait()

    def _check_owner(self, job_id: str) -> None:
        """Raise WrongState for a job that only its owner may signal, suspend or end."""
        job = self._jobs.get(JobId(job_id))
        if job is not None and job.owner:
            raise WrongState(owned(job))

    def _attempt(self, job_id: str, attempt: int) -> Job | None:
        """Return an attempt of a job (0: the current attempt) if it runs here."""
        job = self._jobs.get(JobId(job_id))
        runs = job is not None and job.state is JobState.RUNNING
        return job if runs and job is not None and attempt in (0, job.attempt) else None

    def _go_on(self, job: Job) -> None:
        """Resume a job that must end, and prevent further suspension."""
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


async def _begun(job: Job) -> None:
    """Wait until a starting job runs, or could not be started."""
    if job.state is JobState.STARTING:
        async with job.lock:
            pass
