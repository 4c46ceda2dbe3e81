"""The processes of a job: below its keeper, or below its first process if the keeper was killed.

Processes of shells of its user are below the keeper of the shells.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.service.jobs.records import Job


def members(job: Job) -> list[int]:
    """Return all processes of a job."""
    if job.owner:
        return [pid for step in job.steps.values() for pid in step.members()]
    found = procfs.descendants(job.keeper)
    # If the keeper was killed, the job consists of its first process and the processes below it.
    first = procfs.same_process(job.pid, job.pid_ticks)
    own = found or ([job.pid, *procfs.descendants(job.pid)] if first else [])
    return [*own, *procfs.descendants(keeper)] if (keeper := shell_keeper(job)) else own


def shell_keeper(job: Job) -> int:
    """Return the keeper of the host of its shells if that is alive, or else 0."""
    host = job.shell_host
    alive = host is not None and procfs.same_process(host.keeper, host.keeper_ticks)
    return host.keeper if host is not None and alive else 0


def roots(jobs: Iterable[Job]) -> dict[int, JobId]:
    """Return the processes below which all processes of the live jobs are."""
    live = [job for job in jobs if job.live]
    found = {job.keeper: job.id for job in live if job.keeper}
    found |= {step.keeper: job.id for job in live for step in job.steps.values()}
    found |= {keeper: job.id for job in live if (keeper := shell_keeper(job))}
    return found | {job.pid: job.id for job in live if job.pid}


def signal_group(job: Job, number: int) -> None:
    """Signal the process group of the first process, if that is alive."""
    # After its end, the PID may soon belong to another process.
    if procfs.same_process(job.pid, job.pid_ticks):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, number)


def start_ticks(pid: int) -> int:
    """Return when a process started; 0 if there is no process with this PID."""
    stat = procfs.read_stat(pid)
    return stat.start_ticks if stat else 0
