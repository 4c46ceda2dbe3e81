"""`history`: the jobs that have ended, from the history of the coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from wattfold.coordinator.cli.history.history_columns import FIELDS, energy_j
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import MOMENT
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
    print_csv,
)
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.shared.texts.word_lists import state_option
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_MAX = 100_000
_YEAR_S = 300 * 86_400
"""Times before that show their year and no time of day."""
SORTS = (
    *("end", "submit", "start", "wait", "time", "nodes", "cores", "energy", "residual"),
    *("given_up", "gained", "user"),
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
@click.option("--queue", default="", metavar="NAME", help="Queue of the jobs.")
@click.option("--account", default="", metavar="NAME", help="Account (project) of the jobs.")
@click.option(
    "--node", default="", metavar="NODE", help="Node on which the last attempt of the jobs ran."
)
@state_option(STATES, "State of the jobs.")
@sort_option(
    SORTS,
    default="-end",
    text="cores means core hours, time the run time, residual the CPU time outside of the mask.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=100,
    show_default=True,
    help="Maximum number of jobs, the first in this order.",
)
@columns_option(tuple(FIELDS))
@header_option
@session_command
def history(
    session: Session,
    since: float | None,
    until: float | None,
    user: str,
    mine: bool,
    app: str,
    queue: str,
    account: str,
    node: str,
    states: tuple[str, ...],
    order: Order,
    limit: int,
    form: Form,
    no_header: bool,
) -> None:
    """List ended jobs with their energy and core hours.

    The coordinator keeps them for years. Values are sums over all attempts of a job. CORE H are the
    hours of its cores. ENERGY contains its share of the idle energy of its nodes and the energy of
    its GPUs. CAP W is the mean cap while it ran.

    Operators see all fields of all jobs. Other users see only the public fields of jobs of other
    accounts, and --app, --queue and --account find only their own jobs.

    For example: wattfold history --since 7d --sort -energy --format id,user,energy
    """
    form = chosen_format(session, form)
    request = pb.ListHistoryRequest(
        since_s=since or 0.0,
        until_s=until or 0.0,
        user=user,
        app=app,
        queue=queue,
        account=account,
        node=node,
        states=[_state(word) for word in states],
        mine=mine,
        limit=limit,
        sort=order.name,
        ascending=not order.descending,
    )
    with session.connect() as client:
        answer = client.list_history(request)
    if form == JSON:
        session.print_json(numbered("history", as_dict(answer)))
    elif form == CSV:
        print_csv(_CSV, map(_row, answer.jobs), header=not no_header)
    elif form != TABLE:
        print_columns(session, FIELDS, form, answer.jobs, header=not no_header)
    elif answer.jobs:
        table = _table(answer.jobs)
        session.print(table.without_titles() if no_header else table)
    elif not no_header:
        click.echo("No matching jobs have ended.")
    if answer.more and form != JSON:
        click.echo(f"wattfold: more than {limit} jobs match; --limit lists more", err=True)


def _state(word: str) -> str:
    return f"JOB_STATE_{word.upper().replace('-', '_')}"


def _row(job: pb.HistoryJob) -> dict[str, object]:
    return as_dict(job) | {"state": f.job_state(job.state), "unit": f.size_unit(job.unit)}


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
