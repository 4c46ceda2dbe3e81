"""`accounts`: accounts and users with limits, and how much they use."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@session_command
def accounts(session: Session) -> None:
    """List your accounts and your limits, with the part in use.

    JOBS, CORES and POWER show the use and the maximum at the same time. Jobs count while they run,
    and while the policy may start them: with their maximum size, and with the power above idle of
    this size at their cap. LIMITED is the number of jobs that wait for a limit. RATE is the maximum
    number of submissions per second. With fair share, SHARE and USE are the parts of all shares and
    of all recent use, and FACTOR multiplies the priorities of waiting jobs. Operators see all
    accounts and users.
    """
    with session.connect() as client:
        answer = client.list_accounts()
    if session.json:
        session.print_json(numbered("accounts", as_dict(answer)))
    elif answer.accounts:
        session.print(_table(answer.accounts))
    else:
        click.echo("No accounts or limits for you; the configuration of the coordinator has them.")


def _table(listed: Iterable[pb.Account]) -> PlainTable:
    listed = list(listed)
    fair = any(one.priority_factor for one in listed)
    table = plain_table(
        left("KIND"),
        left("NAME"),
        right("JOBS"),
        right("CORES"),
        right("POWER"),
        right("LIMITED"),
        right("RATE"),
        *([right("SHARE"), right("USE"), right("FACTOR")] if fair else []),
        left("MEMBERS"),
    )
    for one in listed:
        add_row(
            table,
            one.kind,
            one.name,
            f"{one.jobs}/{one.jobs_max or f.NONE}",
            f"{one.cores}/{one.cores_max or f.NONE}",
            f"{f.power(one.power_uw)}/{f.power(one.power_uw_max) if one.power_uw_max else f.NONE}",
            str(one.jobs_waiting),
            f"{one.submissions_per_s_max:g}/s" if one.submissions_per_s_max else f.NONE,
            *(_fair_share(one) if fair else []),
            " ".join(one.members) or f.NONE,
        )
    return table


def _fair_share(one: pb.Account) -> list[str]:
    if not one.priority_factor:
        return [f.NONE] * 3
    return [f"{one.share:.0%}", f"{one.recent_use:.0%}", f"{one.priority_factor:.3g}"]
