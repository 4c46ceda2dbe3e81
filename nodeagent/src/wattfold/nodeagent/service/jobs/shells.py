"""Shells of users in their running jobs: a step host beside the program of the job.

The first shell on a node starts the host, and later shells find it. Host and shells enter the
control groups of the job. They count in its CPU time, energy and mask, and end with the job. The
host has a keeper of its own, so a running shell never keeps a job alive.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.accounts import account_of
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource, reap
from wattfold.nodeagent.adapters.jobs.processes import Starting, ended
from wattfold.nodeagent.core.errors import UnknownJob, WrongState
from wattfold.nodeagent.ending import end_round
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.job_processes import shell_keeper, start_ticks
from wattfold.nodeagent.service.jobs.launching import JobPorts, shell_order
from wattfold.nodeagent.service.jobs.records import Job, JobState, ShellHost, owned

GRACE_S = 2.0
"""Time that shells have to end after SIGHUP when their job has ended."""


class Shells:
    """Starts the hosts of shells. Used from the event loop only."""

    def __init__(
        self,
        jobs: Mapping[JobId, Job],
        keepers: KeeperSource,
        ports: JobPorts,
        files: JobFiles,
    ) -> None:
        self._jobs = jobs
        self._keepers = keepers
        self._ports = ports
        self._files = files

    async def open(self, job_id: str, attempt: int, key: bytes) -> None:
        """Make sure that a host accepts shells of this attempt. Raises Refused."""
        job = self._running(job_id, attempt)
        async with job.lock:
            if self._running(job_id, attempt) is not job:
                raise WrongState(f"job {job_id} has just been replaced; try again")
            # A node without the program has a host from the start.
            if job.steps_only or shell_keeper(job):
                return
            reap_shells(job)
            order = shell_order(self._ports, job, key, account_of("", job.uid))
            starting = await Starting.prepare(self._keepers, job.id, order)
            job.shell_host = ShellHost(
                pid=starting.pid,
                pid_ticks=start_ticks(starting.pid),
                keeper=starting.keeper,
                keeper_ticks=start_ticks(starting.keeper),
            )
            try:
                self._files.save(job)
            except BaseException:
                await starting.abandon()
                raise
            await starting.go()
        logs.info("shell_host_started", job=job.id, pid=starting.pid)

    def _running(self, job_id: str, attempt: int) -> Job:
        job = self._jobs.get(JobId(job_id))
        if job is None:
            raise UnknownJob(f"job {job_id} is not on this node")
        if job.owner:
            raise WrongState(owned(job))
        if job.attempt != attempt:
            raise WrongState(f"job {job_id} is at attempt {job.attempt} here, not {attempt}")
        first = procfs.same_process(job.pid, job.pid_ticks)
        if job.state is not JobState.RUNNING or job.ending or not first:
            raise WrongState(f"job {job_id} does not run any more, or not yet")
        if job.suspended:
            raise WrongState(f"job {job_id} is suspended; resume it before you open a shell")
        return job


def adopt_shells(job: Job) -> None:
    """Tell the keeper of the shells of an adopted job about the new agent."""
    if keeper := shell_keeper(job):
        os.kill(keeper, signal.SIGUSR1)


def reap_shells(job: Job) -> None:
    """Collect the keeper of the shells of a job if it has ended."""
    if job.shell_host is not None:
        reap(job.shell_host.keeper)


async def end_shells(job: Job) -> None:
    """End the shells of a job that has ended, and return when none of their processes is alive."""
    host, keeper = job.shell_host, shell_keeper(job)
    if host is not None and keeper:
        await _end(job.id, host, keeper)


async def _end(job: JobId, host: ShellHost, keeper: int) -> None:
    if procfs.same_process(host.pid, host.pid_ticks):
        os.kill(host.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(GRACE_S):
            await ended(keeper)
        return
    except TimeoutError:
        logs.info("shells_killed", job=job, grace_s=GRACE_S)
    await asyncio.to_thread(end_round, [], lambda: procfs.descendants(keeper))
    await ended(keeper)
