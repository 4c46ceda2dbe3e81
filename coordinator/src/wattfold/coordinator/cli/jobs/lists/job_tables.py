"""Tables of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.coordinator.cli.jobs.submission.map_fields import brief
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import (
    Cell,
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
    wrapped,
)
from wattfold.v1 import coordinator_pb2 as pb

_INDICES_SHOWN = 24
_OF_OTHERS = (pb.JOB_ACCESS_OPERATOR, pb.JOB_ACCESS_OTHER)


def queue_table(
    jobs: Iterable[pb.Job],
    now_s: float,
    marks: Mapping[str, Cell] | None = None,
    narrow: bool = False,
    starts: bool = False,
) -> PlainTable:
    """Return one row per job: its resources, its progress, and the reason why it waits.

    Marks lead the rows by job ID. A narrow table has neither the cap nor the remaining time; with
    ``starts`` it has the expected starts instead. Long reasons wrap, except next to marks. The
    owners are shown if not all jobs belong to the caller.
    """
    jobs = list(jobs)
    owners = any(job.access in _OF_OTHERS for job in jobs) or len({owner(job) for job in jobs}) > 1
    table = plain_table(
        *([left("")] if marks is not None else []),
        left("ID"),
        *([left("USER")] if owners else []),
        flexible("NAME"),
        left("STATE"),
        right("SIZE"),
        *([] if narrow or starts else [right("CAP W")]),
        right("TIME"),
        *([right("START")] if starts else [right("DONE")]),
        *([] if narrow or starts else [right("LEFT")]),
        wrapped("WHERE (REASON)") if marks is None else flexible("WHERE (REASON)"),
    )
    for job in jobs:
        add_row(
            table,
            *([marks.get(job.job_id, "")] if marks is not None else []),
            numbered(job),
            *([owner(job)] if owners else []),
            name_of(job),
            f.styled_job_state(job.state),
            f.size(job),
            *([] if narrow or starts else [f.watts(job.cap_uw)]),
            f.duration(elapsed_s(job, now_s)),
            start(job, now_s) if starts else done(job),
            *([] if narrow or starts else [left_s(job)]),
            where_or_reason(job),
        )
    return table


def start(job: pb.Job, now_s: float) -> str:
    """Return the expected or promised start, as local time and as the time until then."""
    if not job.expected_start_at_s:
        return f.NONE
    left = f.duration(max(job.expected_start_at_s - now_s, 0.0))
    by = "by " if job.start_promised else ""
    return f"{by}{f.clock(job.expected_start_at_s)} (in {left})"


def owner(job: pb.Job) -> str:
    """Return the account of a job, or its number if it has no name."""
    return job.user or (str(job.uid) if job.HasField("uid") else f.NONE)


def is_of(job: pb.Job, user: str) -> bool:
    """Whether a job belongs to an account, given by name or number."""
    return user in (owner(job), str(job.uid) if job.HasField("uid") else "")


def hidden(job: pb.Job) -> bool:
    """Whether the job belongs to another account and only its public fields are known."""
    return job.access == pb.JOB_ACCESS_OTHER


def name_of(job: pb.Job) -> str:
    """Return the name of a job, if the caller may see it."""
    return "(hidden)" if hidden(job) else job.spec.name or job.spec.app or f.NONE


def numbered(job: pb.Job) -> str:
    """Return the number of a job, with the number of its attempt from the second on.

    An array is shown with the indices of its tasks that have not started, or else with all indices.
    """
    if job.HasField("array"):
        return array_text(job)
    return f"{job.job_id}#{job.attempt}" if job.attempt > 1 else job.job_id


def array_text(job: pb.Job) -> str:
    """Return the ID of an array with indices and limit, such as ``12_[5-99%10]``."""
    indices = job.array.waiting or job.array.indices
    if len(indices) > _INDICES_SHOWN:
        indices = f"{indices[:_INDICES_SHOWN].rpartition(',')[0]},..."
    return f"{job.job_id}_[{indices}{f'%{job.array.limit}' if job.array.limit else ''}]"


def elapsed_s(job: pb.Job, now_s: float) -> float:
    """Return the run time of a job, or its waiting time if it has not started."""
    start = job.started_at_s or job.submitted_at_s
    return max(0.0, (job.ended_at_s or now_s) - start)


def done_share(job: pb.Job) -> float | None:
    """Return the fraction done, from the job's own report if any, else from the model."""
    if not job.started_at_s:
        return None
    if job.progress.total > 0:
        return job.progress.done / job.progress.total
    return job.done or None


def done(job: pb.Job) -> str:
    """Return the fraction done in percent."""
    share = done_share(job)
    return f.NONE if share is None else f.percent(share)


def left_s(job: pb.Job) -> str:
    """Return the estimated remaining time, or the time by which the estimate is exceeded."""
    if job.over_s > 0:
        return f"over {f.duration(job.over_s)}"
    running = job.state in (pb.JOB_STATE_STARTING, pb.JOB_STATE_RUNNING)
    return f.duration(job.remaining_s) if running and job.remaining_s > 0 else f.NONE


def where_or_reason(job: pb.Job) -> str:
    """Return nodes and CPUs of a job that holds some, with its program's report in brackets.

    For another job, return the reason why it holds none, in brackets.
    """
    if job.shares and not (job.state in f.ENDED_STATES and ending(job)):
        wish = f"requests {f.cores(job.cores_wanted)}" if job.cores_wanted else ""
        levels = f.levels(job).removeprefix(", ")
        said = ", ".join(filter(None, [job.phase, wish, levels]))
        where = f"{f.where(job)} ({said})" if said else f.where(job)
        return ", ".join(filter(None, [where, brief(job), resizing(job), note(job)]))
    text = ending(job) if job.state in f.ENDED_STATES else job.reason
    return f"({text})" if text else ""


def resizing(job: pb.Job) -> str:
    """Return the reason of a pending start, restart at another size, or missing ordered size."""
    late = job.size_ordered not in (0, job.size)
    return job.reason if job.next_size or late or job.state == pb.JOB_STATE_STARTING else ""


def note(job: pb.Job) -> str:
    """Return the message of the nodes about a job that has not ended."""
    return "" if job.state in f.ENDED_STATES else job.message


def ending(job: pb.Job) -> str:
    """Return a short description of how the job ended."""
    if hidden(job):
        return ""
    if job.message:
        return job.message
    if job.state in (pb.JOB_STATE_COMPLETED, pb.JOB_STATE_FAILED):
        return f"exit code {job.exit_code}"
    return ""
