"""`queue`, `show`, `explain`: commands that read jobs."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
import time

import click

from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.jobs.job_tables import is_of, queue_table, waits
from wattfold.coordinator.cli.shared.errors import NotFoundError
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.native_text import native_text
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.shared.tables import Styled
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_MAX = 100_000
ON_NODES = (
    pb.JOB_STATE_STARTING,
    pb.JOB_STATE_RUNNING,
    pb.JOB_STATE_SUSPENDED,
    pb.JOB_STATE_ENDING,
)


@click.command()
@click.option("--all", "include_ended", is_flag=True, help="Include jobs that have ended.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=1000,
    show_default=True,
    help="Maximum number of jobs. Running jobs take precedence, then the newest jobs. With "
    "--start, the jobs with the earliest starts take precedence.",
)
@click.option(
    "--user",
    default="",
    metavar="ACCOUNT",
    help="Account whose jobs are listed, by name or number.",
)
@click.option("--mine", is_flag=True, help="List only your own jobs.")
@click.option(
    "--start", "starts", is_flag=True, help="List only waiting jobs, with their expected starts."
)
@session_command
def queue(
    session: Session, include_ended: bool, limit: int, user: str, mine: bool, starts: bool
) -> None:
    """List jobs with size, cap, nodes, progress and reasons.

    SIZE is the current size and the requested size; n marks whole nodes. TIME is the run time, or
    the waiting time of a job that has not started. USER appears if not all jobs are yours. The
    names of jobs of other accounts are hidden.

    The reason of a waiting job is that of the policy. For the first four waiting jobs, it also says
    what the job lacks, which jobs hold it, and until when.

    START (with --start) is an estimate from the run times of all jobs ahead. Some policies estimate
    it only for the first jobs of the queue, or for none. "by" before a start time marks a promised
    start: no later submission delays this job.
    """
    chosen = bool(user) or mine or starts
    with session.connect() as client:
        asked = LIMIT_MAX if chosen else limit
        answer = client.list_jobs(include_ended=include_ended, limit=asked)
    if chosen:
        jobs = [job for job in answer.jobs if _wanted(job, user, mine)]
        if starts:
            jobs = sorted(filter(waits, jobs), key=lambda job: job.expected_start_at_s or math.inf)
        kept = jobs[:limit] if starts else _newest(jobs, limit)
        answer = pb.ListJobsResponse(jobs=kept, planner=answer.planner, total=len(jobs))
    if answer.planner and not session.json:
        session.print(planner_line(answer.planner))
    if session.json:
        session.print_json(as_dict(answer))
    elif answer.jobs:
        session.print(queue_table(answer.jobs, now_s=time.time(), starts=starts))
        missing = answer.total - len(answer.jobs)
        if missing > 0:
            jobs_text = "1 job is" if missing == 1 else f"{missing} jobs are"
            click.echo(
                f"wattfold: {jobs_text} not listed; --limit {answer.total} lists all", err=True
            )
    elif starts:
        click.echo("No jobs are waiting.")
    elif chosen:
        whose = f"of {user}" if user else "of yours"
        ended = "" if include_ended else " are waiting or running; --all includes ended jobs"
        click.echo(f"No jobs {whose}{ended}.")
    else:
        running = "No jobs are waiting or running; --all includes ended jobs."
        click.echo("No jobs." if include_ended else running)


def planner_line(planner: str) -> Styled:
    """Report why the planner cannot plan as configured."""
    return Styled(f"Note: {planner}.", style="bold yellow")


def _newest(jobs: list[pb.Job], limit: int) -> list[pb.Job]:
    """Return at most ``limit`` jobs, in their order, as the coordinator chooses them."""
    last = sorted(jobs, key=lambda job: job.state in ON_NODES)[-limit:]
    kept = {job.job_id for job in last}
    return [job for job in jobs if job.job_id in kept]


def _wanted(job: pb.Job, user: str, mine: bool) -> bool:
    if mine and job.access != pb.JOB_ACCESS_OWN:
        return False
    return not user or is_of(job, user)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--env",
    "environment",
    is_flag=True,
    help="Show the environment of the job instead. Only for the owner and operators, while the "
    "job may still be started.",
)
@session_command
def show(session: Session, job_id: str, environment: bool) -> None:
    r"""Show all fields of a job except its environment.

    The environment may contain secrets; --env shows it. Users see only the public fields of jobs of
    other accounts. Operators see all fields. Bytes outside of UTF-8 are shown as in \xff; --env
    without --json prints them as they are.
    """
    if environment:
        _show_environment(session, job_id)
        return
    with session.connect() as client:
        answer = client.list_jobs([job_id], include_ended=True, details=True)
    if not answer.jobs:
        raise NotFoundError(f"no job {job_id!r}; `wattfold queue --all` lists all jobs")
    if session.json:
        session.print_json(as_dict(answer.jobs[0]))
    else:
        from wattfold.coordinator.cli.jobs.job_sheet import job_sheet

        session.print(job_sheet(answer.jobs[0], now_s=time.time()))


def _show_environment(session: Session, job_id: str) -> None:
    with session.connect() as client:
        env = client.environment(job_id)
    if session.json:
        shown = {shown_text(name): shown_text(value) for name, value in env.items()}
        session.print_json({"job_id": job_id, "env": shown})
        return
    for name, value in sorted(env.items()):
        click.echo(os.fsencode(native_text(f"{name}={value}")))


@click.command()
@click.argument("job_id", metavar="JOB")
@session_command
def explain(session: Session, job_id: str) -> None:
    """Explain the size and the power of a job, or why it waits."""
    with session.connect() as client:
        answer = client.explain(job_id)
    if session.json:
        session.print_json(as_dict(answer))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    click.echo(textwrap.fill(answer.summary, width))
    for line in answer.lines:
        click.echo(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))
