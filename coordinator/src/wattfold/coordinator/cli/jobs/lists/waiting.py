"""Wait for the ends of jobs, over restarts of the coordinator.

It polls the jobs instead of reading the stream of the whole cluster, which is large on a
large machine. Jobs survive the coordinator, so a waiter outlasts it as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from wattfold.coordinator.cli.shared.errors import NotFoundError, UnreachableError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

POLL_S = 0.5
SIGNAL_BASE = 128
"""Shells report the end by signal n as exit code 128 + n."""

OUTPUT_S = 0.1
"""Time between two looks at the output of the job."""

Notice = Callable[[str], None]
"""Shows a line to the user."""


class Output(Protocol):
    """The output of a job, shown while the job is followed."""

    def meet(self, job: pb.Job) -> None:
        """Take the newest state of the job."""

    def show(self) -> None:
        """Show everything that is new."""


def _everything(_job: pb.Job) -> bool:
    """Whether the user should see a state."""
    return True


@dataclass(slots=True)
class JobWaiter:
    """Wait for one job to its end. `stop` ends the wait from another thread."""

    client: CoordinatorClient
    job_id: str
    notice: Notice
    poll_s: float = POLL_S
    stop: threading.Event | None = None
    output: Output | None = None
    shows: Callable[[pb.Job], bool] = _everything
    """Whether `notice` gets the state of this job."""

    def wait(self) -> pb.Job | None:
        """Return the ended job, or None if stopped. Raises NotFoundError if the job is unknown."""
        waiter = JobsWaiter(
            client=self.client,
            job_ids=(self.job_id,),
            notice=lambda _job_id, line: self.notice(line),
            poll_s=self.poll_s,
            stop=self.stop or threading.Event(),
            output=self.output,
            shows=self.shows,
        )
        return next(iter(waiter.wait()), None)


@dataclass(slots=True, kw_only=True)
class JobsWaiter:
    """Wait for the ends of all jobs, or of the first with ``any_end``.

    ``until_s`` is the end of the wait by the monotonic clock; None = no limit.
    """

    client: CoordinatorClient
    job_ids: Sequence[str]
    notice: Callable[[str, str], None]
    any_end: bool = False
    until_s: float | None = None
    poll_s: float = POLL_S
    stop: threading.Event = field(default_factory=threading.Event)
    output: Output | None = None
    shows: Callable[[pb.Job], bool] = _everything

    def wait(self) -> list[pb.Job]:
        """Return the ended jobs, in order of their ends. Raises NotFoundError."""
        shown: dict[str, str] = {}
        ended: dict[str, pb.Job] = {}
        while not self.stop.is_set():
            left = [job_id for job_id in self.job_ids if job_id not in ended]
            try:
                jobs = {job.job_id: job for job in self._look(left)}
            except UnreachableError:
                jobs = {}
            for job_id in left:
                line = self._met(jobs[job_id]) if job_id in jobs else _UNREACHABLE
                if line and line != shown.get(job_id):
                    self.notice(job_id, line)
                    shown[job_id] = line
            new = [job for job in jobs.values() if job.state in f.ENDED_STATES]
            ended |= {job.job_id: job for job in sorted(new, key=lambda job: job.ended_at_s)}
            if len(ended) == len(self.job_ids) or (self.any_end and ended) or not self._pause():
                break
        return list(ended.values())

    def _met(self, job: pb.Job) -> str:
        """Show the output of a job so far; return the line about its state, if any."""
        line = describe(job) if self.shows(job) else ""
        if self.output is not None:
            self.output.meet(job)
            if job.state in f.ENDED_STATES:
                self.output.show()
        return line

    def _pause(self) -> bool:
        """Wait for the next look; False = the time is over."""
        now_s = time.monotonic()
        left_s = self.poll_s if self.until_s is None else self.until_s - now_s
        end_s = now_s + max(min(self.poll_s, left_s), 0.0)
        step_s = self.poll_s if self.output is None else OUTPUT_S
        while not self.stop.is_set() and (rest_s := end_s - time.monotonic()) > 0:
            if self.output is not None:
                self.output.show()
            self.stop.wait(min(step_s, rest_s))
        return left_s > 0

    def _look(self, job_ids: Sequence[str]) -> Iterable[pb.Job]:
        jobs = self.client.list_jobs(job_ids, include_ended=True, limit=len(job_ids)).jobs
        unknown = {*job_ids} - {job.job_id for job in jobs}
        if unknown:
            raise NotFoundError(
                f"no job {min(unknown)!r}: the coordinator no longer has a record of it"
            )
        return jobs


_UNREACHABLE = "the coordinator does not answer; waiting for it, the job continues"


def describe(job: pb.Job) -> str:
    """Return state, place and reason on one line; it changes only if the user should see it."""
    parts = [f.job_state(job.state)]
    if job.attempt > 1:
        parts.append(f"(attempt {job.attempt})")
    if job.shares:
        parts.append(f"on {f.where(job)}")
    if job.cap_uw and job.shares:
        parts.append(f"at {f.power(job.cap_uw)}{f.levels(job)}")
    if job.state in (pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD) and job.reason:
        # The missing resources follow a semicolon, and change with every request.
        parts.append(f"({job.reason.partition(';')[0]})")
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
