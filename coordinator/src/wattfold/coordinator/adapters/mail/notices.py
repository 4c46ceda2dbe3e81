"""Notices about jobs, and the text of a mail with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.contract.local_time import moment
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.ownership import owner_name
from wattfold.coordinator.core.model.job import FINAL_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.mail import MailEvent

LINES_MAX = 100
_WORDS = {
    MailEvent.BEGIN: "has started",
    MailEvent.END: "has ended",
    MailEvent.FAIL: "has failed",
    MailEvent.REQUEUE: "was requeued",
}
FAILURES = FINAL_STATES - {JobState.COMPLETED, JobState.CANCELLED}


@dataclass(frozen=True, slots=True)
class JobStage:
    """Progress of a job, as far as mails report it."""

    attempt: int
    begun: bool
    final: bool

    @classmethod
    def of(cls, job: Job) -> JobStage:
        """Return the stage of a job."""
        begun = job.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING)
        return cls(job.attempt, begun, job.final)


@dataclass(frozen=True, slots=True)
class Notice:
    """One event of one job: a line that says all, and details for a mail about this event only."""

    owner: str
    line: str
    details: tuple[str, ...]


def events_between(before: JobStage, job: Job) -> list[MailEvent]:
    """Return the events of a job since an earlier stage, in their order.

    FAIL comes instead of END for jobs whose user requested it.
    """
    after, events = JobStage.of(job), list[MailEvent]()
    wanted = job.spec.mail.events
    again = after.attempt > before.attempt
    if again:
        events.append(MailEvent.REQUEUE)
    if after.begun and (again or not before.begun):
        events.append(MailEvent.BEGIN)
    if after.final and (again or not before.final):
        failed = job.state in FAILURES and MailEvent.FAIL in wanted
        events.append(MailEvent.FAIL if failed else MailEvent.END)
    return [event for event in events if event in wanted]


def notice_of(job: Job, event: MailEvent, clock: Clock) -> Notice:
    """Return the notice about an event of a job."""
    name = f" ({job.spec.name})" if job.spec.name else ""
    state = f": {job.state.value}" if job.final else ""
    exit_text = f", exit status {job.exit_code}" if job.final and job.exit_code else ""
    details = [f"State: {job.state.value}"]
    if job.started_ns >= 0:
        details.append(f"Start: {moment(clock.wall_s(job.started_ns))}")
    if job.final:
        details.append(f"End: {moment(clock.wall_s(job.ended_ns))}")
    if job.ranks:
        details.append(f"Nodes: {', '.join(sorted(job.ranks))}")
    if job.message:
        details.append(f"Message: {job.message}")
    return Notice(
        owner=owner_name(job.spec),
        line=f"Job {job.job_id}{name} {_WORDS[event]}{state}{exit_text}",
        details=(*details, f"For more, run: wattfold show {job.job_id}"),
    )


def mail_text(notices: Sequence[Notice], dropped: int) -> tuple[str, str]:
    """Return subject and text of one mail about all notices. ``dropped`` further ones are lost."""
    if len(notices) == 1 and not dropped:
        only = notices[0]
        return f"Wattfold: {only.line}", "\n".join((only.line, "", *only.details, ""))
    total = len(notices) + dropped
    lines = [notice.line for notice in notices[:LINES_MAX]]
    if total > len(lines):
        lines.append(f"and {total - len(lines)} more")
    return f"Wattfold: {total} events of jobs", "\n".join((*lines, ""))
