"""`queue`: the list of jobs, with filters that the coordinator applies."""

from __future__ import annotations

import math
import time

import click

from wattfold.coordinator.cli.jobs.lists.job_columns import JOB_COLUMNS, job_fields
from wattfold.coordinator.cli.jobs.lists.job_tables import queue_table
from wattfold.coordinator.cli.jobs.selection import STATES
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import MOMENT, NAMES
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.columns import Order, sort_option
from wattfold.coordinator.cli.shared.texts.formats import (
    CSV,
    JSON,
    TABLE,
    Form,
    chosen_format,
    columns_option,
    header_option,
    print_columns,
    print_csv_columns,
)
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import Styled
from wattfold.coordinator.cli.shared.texts.word_lists import state_option
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_MAX = 100_000
WAITING = (pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD)
"""States of jobs that have not started, or that wait for a restart."""
_FIRST = (
    pb.JOB_STATE_RUNNING,
    pb.JOB_STATE_SUSPENDED,
    pb.JOB_STATE_STARTING,
    pb.JOB_STATE_ENDING,
    *WAITING,
)
"""Order of the counts of open jobs."""


@click.command()
@click.option("--all", "include_ended", is_flag=True, help="Include jobs that have ended.")
@state_option(list(STATES), "State of the jobs; waiting means pending. Ended states imply --all.")
@click.option(
    "--user", default="", metavar="ACCOUNT", help="Account of the jobs, by name or number."
)
@click.option(
    "--tasks",
    is_flag=True,
    help="List the tasks of job arrays, which otherwise have one line. An array with tasks that "
    "are not jobs yet keeps its line.",
)
@click.option("--mine", is_flag=True, help="List only your own jobs.")
@click.option("--app", default="", metavar="NAME", help="Application of the jobs.")
@click.option("--queue", "queue_name", default="", metavar="NAME", help="Queue of the jobs.")
@click.option(
    "--account", "account", default="", metavar="NAME", help="Account (project) of the jobs."
)
@click.option(
    "--node",
    "node_ids",
    type=NAMES,
    metavar="NODE[,NODE]...",
    help="Nodes of the jobs: list jobs that hold cores on one of them.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Earliest submission: 2h for two hours ago, 2026-11-22 or 2026-11-22T03:00.",
)
@click.option(
    "--start", "starts", is_flag=True, help="List only waiting jobs, with their expected starts."
)
@sort_option(JOB_COLUMNS, text="Default: order of submission; with --start, order of the starts.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=1000,
    show_default=True,
    help="Maximum number of jobs. Running jobs take precedence, then the newest jobs. With --sort "
    "or --start, the first jobs of the list take precedence.",
)
@columns_option(JOB_COLUMNS)
@header_option
@session_command
def queue(
    session: Session,
    include_ended: bool,
    states: tuple[str, ...],
    user: str,
    tasks: bool,
    mine: bool,
    app: str,
    queue_name: str,
    account: str,
    node_ids: tuple[str, ...] | None,
    since: float | None,
    starts: bool,
    order: Order | None,
    limit: int,
    form: Form,
    no_header: bool,
) -> None:
    """List jobs with size, cap, nodes, progress and reasons.

    SIZE is the current size and the requested size; n marks whole nodes. TIME is the run time, or
    the waiting time of a job that has not started. USER appears if not all jobs are yours. The
    names of jobs of other users are hidden. --app, --queue and --account find only jobs whose
    application, queue and account you may see: your own, or all jobs if you are an operator.

    The reason of a waiting job is that of the policy. For the first four waiting jobs, it also says
    what the job lacks, which jobs hold it, and until when.

    START (with --start) is an estimate from the run times of all jobs ahead. Some policies estimate
    it only for the first jobs of the queue, or for none. "by" before a start time marks a promised
    start: no later submission delays this job.

    For example: wattfold queue --state running --sort -energy --format id,user,energy
    """
    form = chosen_format(session, form)
    chosen = {STATES[word] for word in states}
    include_ended = include_ended or not chosen.isdisjoint(f.ENDED_STATES)
    if starts:
        chosen = chosen.intersection(WAITING) if chosen else set(WAITING)
        if not chosen:
            raise click.UsageError("--start lists waiting jobs; --state names no such state")
    with session.connect() as client:
        answer = client.list_jobs(
            include_ended=include_ended,
            limit=LIMIT_MAX if starts or order else limit,
            states=sorted(chosen),
            user=user,
            mine=mine,
            app=app,
            queue=queue_name,
            account=account,
            node_ids=node_ids or (),
            since_s=since or 0.0,
            tasks=tasks,
        )
    now_s = time.time()
    _arrange(answer, order, starts, limit, now_s)
    fields = job_fields(now_s)
    if form == JSON:
        session.print_json(numbered("queue", as_dict(answer)))
        return
    if form == CSV:
        print_csv_columns(fields, JOB_COLUMNS, answer.jobs, header=not no_header)
    elif form != TABLE:
        print_columns(session, fields, form, answer.jobs, header=not no_header)
    else:
        if not no_header:
            _print_head(session, answer)
        if answer.jobs:
            table = queue_table(answer.jobs, now_s=now_s, starts=starts)
            session.print(table.without_titles() if no_header else table)
        elif not no_header:
            filtered = bool(states or app or queue_name or account or node_ids or since)
            click.echo(_nothing(include_ended, starts, user, mine, filtered))
    missing = answer.total - len(answer.jobs)
    if missing > 0:
        jobs_text = "1 job is" if missing == 1 else f"{missing} jobs are"
        click.echo(f"wattfold: {jobs_text} not listed; --limit {answer.total} lists all", err=True)


def _arrange(
    answer: pb.ListJobsResponse, order: Order | None, starts: bool, limit: int, now_s: float
) -> None:
    """Sort the jobs of an answer, and keep the first of them."""
    if order is None and not starts:
        return
    jobs = list(answer.jobs)
    if starts:
        jobs.sort(key=lambda job: job.expected_start_at_s or math.inf)
    if order is not None:
        jobs = order.apply(job_fields(now_s), jobs)
    del answer.jobs[:]
    answer.jobs.extend(jobs[:limit])


def _print_head(session: Session, answer: pb.ListJobsResponse) -> None:
    """Print a note about the planner, and the numbers of jobs by state."""
    if answer.planner:
        session.print(planner_line(answer.planner))
    counts = {count.state: count.jobs for count in answer.counts}
    ordered = [*(state for state in _FIRST if state in counts), *sorted(set(counts) - {*_FIRST})]
    if ordered:
        click.echo(f.counts((_counted(state), counts[state]) for state in ordered))


def _counted(state: pb.JobState) -> str:
    return "waiting" if state == pb.JOB_STATE_PENDING else f.job_state(state)


def planner_line(planner: str) -> Styled:
    """Report why the planner cannot plan as configured."""
    return Styled(f"Note: {planner}.", style="bold yellow")


def _nothing(include_ended: bool, starts: bool, user: str, mine: bool, filtered: bool) -> str:
    """Return the sentence about an empty list."""
    whose = f" of {user}" if user else " of yours" if mine else ""
    which = f"{'matching ' if filtered else ''}jobs{whose}"
    if starts:
        return f"No {which} are waiting."
    if include_ended:
        return f"No {which}."
    return f"No {which} are waiting or running; --all includes ended jobs."
