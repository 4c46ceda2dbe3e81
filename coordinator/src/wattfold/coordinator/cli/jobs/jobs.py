"""`queue`, `show`, `explain`: looking at jobs."""

from __future__ import annotations

import math
import time

import click

from wattfold.coordinator.cli.jobs.job_tables import owner, queue_table, waits
from wattfold.coordinator.cli.shared.errors import NotFoundError
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_MAX = 100_000


@click.command()
@click.option("--all", "include_ended", is_flag=True, help="Also jobs that have ended.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=1000,
    show_default=True,
    help="At most so many jobs, the newest.",
)
@click.option("--user", default="", metavar="ACCOUNT", help="Only the jobs of this account.")
@click.option("--mine", is_flag=True, help="Only your own jobs.")
@click.option(
    "--start", "starts", is_flag=True, help="Only jobs that wait, with their expected starts."
)
@session_command
def queue(
    session: Session, include_ended: bool, limit: int, user: str, mine: bool, starts: bool
) -> None:
    """List jobs: size, cap, place, progress, and why they wait.

    SIZE is the present size over the size asked for, with an n for whole nodes. TIME is the run
    time, or the wait of a job that has not started. USER is there where not all jobs are
    yours. The names of other people's jobs are not shown. The START of --start is by the estimates
    of all jobs before it; a policy may know it of the first few only, or of none. By a time:
    promised, no job that is submitted later delays it.
    """
    chosen = bool(user) or mine or starts
    with session.connect() as client:
        asked = LIMIT_MAX if chosen else limit
        answer = client.list_jobs(include_ended=include_ended, limit=asked)
    if chosen:
        jobs = [job for job in answer.jobs if _wanted(job, user, mine)]
        if starts:
            jobs = sorted(filter(waits, jobs), key=lambda job: job.expected_start_at_s or math.inf)
        answer = pb.ListJobsResponse(jobs=jobs[-limit:])
    if session.json:
        session.print_json(as_dict(answer))
    elif answer.jobs:
        session.print(queue_table(answer.jobs, now_s=time.time(), starts=starts))
    elif starts:
        click.echo("No jobs wait.")
    elif chosen:
        whose = f"of {user}" if user else "of yours"
        click.echo(f"No jobs {whose}{'' if include_ended else ' wait or run; --all lists ended'}.")
    else:
        click.echo("No jobs." if include_ended else "No jobs wait or run; --all lists ended ones.")


def _wanted(job: pb.Job, user: str, mine: bool) -> bool:
    if mine and job.access != pb.JOB_ACCESS_OWN:
        return False
    return not user or user in (owner(job), str(job.uid) if job.HasField("uid") else "")


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--env",
    "environment",
    is_flag=True,
    help="Its environment instead: for its owner, and as long as it may be started.",
)
@session_command
def show(session: Session, job_id: str, environment: bool) -> None:
    """Show everything about one job but its environment, which may hold secrets.

    Of the job of another account only what everybody may see, unless you are an operator.
    """
    if environment:
        _show_environment(session, job_id)
        return
    with session.connect() as client:
        answer = client.list_jobs([job_id], include_ended=True)
    if not answer.jobs:
        raise NotFoundError(f"no job {job_id!r}; `wattfold queue --all` lists all of them")
    if session.json:
        session.print_json(as_dict(answer.jobs[0]))
    else:
        from wattfold.coordinator.cli.jobs.job_sheet import job_sheet

        session.print(job_sheet(answer.jobs[0], now_s=time.time()))


def _show_environment(session: Session, job_id: str) -> None:
    with session.connect() as client:
        env = client.environment(job_id)
    if session.json:
        session.print_json({"job_id": job_id, "env": env})
        return
    for name, value in sorted(env.items()):
        click.echo(f"{name}={value}")


@click.command()
@click.argument("job_id", metavar="JOB")
@session_command
def explain(session: Session, job_id: str) -> None:
    """Say why a job has its size and power, or why it waits."""
    with session.connect() as client:
        answer = client.explain(job_id)
    if session.json:
        session.print_json(as_dict(answer))
        return
    click.echo(answer.summary)
    for line in answer.lines:
        click.echo(f"  {line}")
