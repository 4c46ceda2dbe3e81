"""`audit`: the list of requests to the coordinator, with account, origin, time and result."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wattfold.contract.local_time import moment
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import MOMENT
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    Styled,
    add_row,
    flexible,
    left,
    plain_table,
)
from wattfold.v1 import coordinator_pb2 as pb

REFUSED = "refused"


@click.command()
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Start of the period: 2h for two hours ago, 2026-11-22 or 2026-11-22T03:00.",
)
@click.option(
    "--until", type=MOMENT, metavar="TIME", help="End of the period, in the same formats."
)
@click.option("--user", default="", metavar="ACCOUNT", help="Account that sent the request.")
@click.option("--job", default="", metavar="JOB", help="Job that the request was about.")
@click.option("--node", default="", metavar="NODE", help="Node that the request was about.")
@click.option(
    "--action", default="", metavar="NAME", help="Name of the request, such as SetBudget or Cancel."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Maximum number of requests; the newest requests are listed.",
)
@session_command
def audit(
    session: Session,
    since: float | None,
    until: float | None,
    user: str,
    job: str,
    node: str,
    action: str,
    limit: int,
) -> None:
    """List requests to the coordinator and their results.

    Refused requests are included, read-only requests are not. Operators see all requests. Other
    accounts see only their own.
    """
    request = pb.ListAuditRequest(
        since_s=since or 0.0,
        until_s=until or 0.0,
        account=user,
        job_id=job,
        node_id=node,
        action=action,
        limit=limit,
    )
    with session.connect() as client:
        answer = client.list_audit(request)
    if session.json:
        session.print_json(as_dict(answer))
    elif answer.entries:
        session.print(_table(answer.entries))
    else:
        click.echo("No matching requests.")


def _table(entries: Iterable[pb.AuditEntry]) -> PlainTable:
    table = plain_table(
        left("WHEN"),
        left("WHO"),
        left("FROM"),
        left("ACTION"),
        left("OUTCOME"),
        flexible("DETAILS"),
    )
    for entry in entries:
        add_row(
            table,
            moment(entry.time_s),
            entry.account or "unknown",
            entry.peer,
            entry.action,
            Styled(entry.outcome, style="red" if entry.outcome == REFUSED else ""),
            _what(entry),
        )
    return table


def _what(entry: pb.AuditEntry) -> str:
    parts = [
        f"job={entry.job_id}" if entry.job_id else "",
        f"node={entry.node_id}" if entry.node_id else "",
        entry.detail,
        f"({entry.message})" if entry.message else "",
    ]
    return " ".join(filter(None, parts))
