"""Waiting for the end of a job, over restarts of the coordinator.

Asks for the one job again and again rather than reading the stream of the whole cluster, which is
large on a large machine. Jobs survive the coordinator, so a waiter outlasts it as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.coordinator.cli.shared import formatting as f
from wattfold.coordinator.cli.shared.errors import NotFoundError, UnreachableError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.client import CoordinatorClient

POLL_S = 0.5
SIGNAL_BASE = 128
"""Shells report the end by signal n as exit code 128 + n."""

Notice = Callable[[str], None]
"""Shows a line to people."""


@dataclass(slots=True)
class JobWaiter:
    """Follows one job to its end. `stop` ends the wait from another thread."""

    client: CoordinatorClient
    job_id: str
    notice: Notice
    poll_s: float = POLL_S
    stop: threading.Event | None = None

    def wait(self) -> pb.Job | None:
        """The ended job, or None when stopped. Raises NotFoundError when the job is unknown."""
        stop = self.stop or threading.Event()
        shown = ""
        while not stop.is_set():
            try:
                job = self._look()
            except UnreachableError:
                line = "the coordinator does not answer; waiting for it, the job continues"
            else:
                line = describe(job)
                if job.state in f.ENDED_STATES:
                    self.notice(line)
                    return job
            if line != shown:
                self.notice(line)
                shown = line
            stop.wait(self.poll_s)
        return None

    def _look(self) -> pb.Job:
        jobs = self.client.list_jobs([self.job_id], include_ended=True).jobs
        if not jobs:
            raise NotFoundError(
                f"no job {self.job_id!r}: the coordinator no longer has a record of it"
            )
        return jobs[0]


def describe(job: pb.Job) -> str:
    """State, place and reason on one line; changes only if the user should see it."""
    parts = [f.job_state(job.state)]
    if job.attempt > 1:
        parts.append(f"(attempt {job.attempt})")
    if job.shares:
        parts.append(f"on {f.where(job)}")
    if job.cap_uw and job.shares:
        parts.append(f"at {f.power(job.cap_uw)}{f.levels(job)}")
    if job.state in (pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD) and job.reason:
        parts.append(f"({job.reason})")
    if job.state in f.ENDED_STATES:
        parts.append(f"with exit code {job.exit_code}")
        if job.started_at_s and job.ended_at_s:
            parts.append(f"after {f.duration(job.ended_at_s - job.started_at_s)}")
        if job.message:
            parts.append(f"({job.message})")
    return " ".join(parts)


def exit_code_of(job: pb.Job) -> int:
    """Return the exit code of the job, which is never 0 if the job did not complete."""
    if job.state == pb.JOB_STATE_COMPLETED:
        return job.exit_code
    if job.exit_code < 0:
        return SIGNAL_BASE - job.exit_code
    return job.exit_code or ExitCode.REFUSED
