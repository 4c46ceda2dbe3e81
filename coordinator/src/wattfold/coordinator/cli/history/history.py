"""`history`: the jobs that have ended, from the history of the coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from wattfold.coordinator.cli.history.formats import (
    CSV,
    JSON,
    chosen_format,
    format_option,
    print_csv,
)
from wattfold.coordinator.cli.shared import formatting as f
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.shared.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.site.audit import MOMENT
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_MAX = 100_000
_YEAR_S = 300 * 86_400
"""Times before that show their year and no time of day."""
SORTS = (
    *("end", "submit", "start", "wait", "time", "nodes", "cores", "energy", "residual", "user"),
    "state",
)
STATES = ("completed", "failed", "cancelled", "lost", "timed-out")
_CSV = tuple(
    field.name
    for field in pb.HistoryJob.DESCRIPTOR.fields
    if field.name not in ("access", "earlier")
)


@click.command()
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Earliest end of a job: 7d for seven days ago, 2026-11-22 or 2026-11-22T03:00.",
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Latest end, in the same formats.")
@click.option(
    "--user", default="", metavar="ACCOUNT", help="Account of the jobs, by name or number."
)
@click.option("--mine", is_flag=True, help="List only your own jobs.")
@click.option("--app", default="", metavar="NAME", help="Application of the jobs.")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="State of the jobs; may be repeated.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="end",
    show_default=True,
    help="Order of the jobs, highest values or newest jobs first. cores means core hours, time the "
    "run time, residual the CPU time outside of the mask.",
)
@click.option("--reverse", is_flag=True, help="List the lowest values or the oldest jobs first.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=100,
    show_default=True,
    help="Maximum number of jobs, the first in this order.",
)
@format_option
@session_command
def history(
    session: Session,
    since: float | None,
    until: float | None,
    user: str,
    mine: bool,
    app: str,
    states: tuple[str, ...],
    sort: str,
    reverse: bool,
    limit: int,
    form: str,
) -> None:
    """List ended jobs with their energy and core hours.

    The coordinator keeps them for years. Values are sums over all attempts of a job. CORE H are the
    hours of its cores. ENERGY contains its share of the idle energy of its nodes and the energy of
    its GPUs. CAP W is the mean cap while it ran.

    Operators see all fields of all jobs. Other users see only the public fields of jobs of other
    accounts, and --app finds only their own jobs.
    """
    form = chosen_format(session, form)
    request = pb.ListHistoryRequest(
        since_s=since or 0.0,
        until_s=until or 0.0,
        user=user,
        app=app,
        states=[_state(word) for word in states],
        mine=mine,
        limit=limit,
        sort=sort,
        ascending=reverse,
    )
    with session.connect() as client:
        answer = client.list_history(request)
    if form == JSON:
        session.print_json(as_dict(answer))
    elif form == CSV:
        print_csv(_CSV, map(_row, answer.jobs))
    elif answer.jobs:
        session.print(_table(answer.jobs))
    else:
        click.echo("No matching jobs have ended.")
    if answer.more and form != JSON:
        click.echo(f"wattfold: more than {limit} jobs match; --limit lists more", err=True)


def _state(word: str) -> str:
    return f"JOB_STATE_{word.upper().replace('-', '_')}"


def _row(job: pb.HistoryJob) -> dict[str, object]:
    row = as_dict(job)
    unit = f.enum_word(pb.SizeUnit.Name(job.unit), "SIZE_UNIT_") if job.unit else ""
    return row | {"state": f.job_state(job.state), "unit": unit}


def energy_j(job: pb.HistoryJob) -> float:
    """Return the whole energy of a job in joules."""
    return job.energy_j + job.idle_energy_j + job.gpu_energy_j


def _ended(at_s: float) -> str:
    """Return a local time without its year, or the date of a time that is a year ago."""
    old = time.time() - at_s > _YEAR_S
    return time.strftime("%Y-%m-%d" if old else "%m-%d %H:%M", time.localtime(at_s))


def _table(jobs: Iterable[pb.HistoryJob]) -> PlainTable:
    table = plain_table(
        left("ID"),
        left("USER"),
        flexible("NAME"),
        left("STATE"),
        right("EXIT"),
        left("ENDED"),
        right("WAITED"),
        right("RAN"),
        flexible("NODES"),
        right("CORE H"),
        right("ENERGY"),
        right("CAP W"),
    )
    for job in jobs:
        private = job.access == pb.JOB_ACCESS_OTHER
        ran_s = job.ended_at_s - job.started_at_s if job.started_at_s else -1.0
        waited_s = (job.started_at_s or job.ended_at_s) - job.submitted_at_s
        add_row(
            table,
            f"{job.job_id}#{job.attempts}" if job.attempts > 1 else job.job_id,
            job.user or f.NONE,
            "(hidden)" if private else job.name or job.app or f.NONE,
            f.styled_job_state(job.state),
            f.NONE if private else str(job.exit_code),
            _ended(job.ended_at_s),
            f.duration(max(waited_s, 0.0)),
            f.duration(ran_s),
            job.node_list or f.NONE,
            f.NONE if private else f"{job.core_s / 3600:.2f}",
            f.NONE if private else f.energy(round(energy_j(job) * 1e6)),
            f"{job.mean_cap_w:.1f}" if job.mean_cap_w else f.NONE,
        )
    return table
