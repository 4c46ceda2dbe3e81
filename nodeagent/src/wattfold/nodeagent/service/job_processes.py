"""The processes of a job: below its keeper, or below its first one where the keeper was killed."""

from __future__ import annotations

import contextlib
import os

from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.service.records import Job


def members(job: Job) -> list[int]:
    """All processes of a job."""
    found = procfs.descendants(job.keeper)
    # A job whose keeper was killed is what is below its first process.
    first = procfs.same_process(job.pid, job.pid_ticks)
    return found or ([job.pid, *procfs.descendants(job.pid)] if first else [])


def signal_group(job: Job, number: int) -> None:
    """Signals the process group of its first process, if that is alive."""
    # After its end the number may be another process soon.
    if procfs.same_process(job.pid, job.pid_ticks):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, number)


def start_ticks(pid: int) -> int:
    """When a process started; 0 if there is none of this number."""
    stat = procfs.read_stat(pid)
    return stat.start_ticks if stat else 0
