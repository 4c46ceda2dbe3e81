"""`reserve`, `reservations`: reservations of nodes for some jobs, or for maintenance."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from wattfold.contract.local_time import moment
from wattfold.contract.units import s_from_ns
from wattfold.coordinator.cli.shared.connection.address import checked_address, default_address
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, NAMES, TIME_S
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
)
from wattfold.v1 import coordinator_pb2 as pb


def complete_reservations(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of reservations; empty if no coordinator answers."""
    del parameter
    # No command runs while a line is completed, so there is no session yet.
    given = context.find_root().params
    address = given.get("address") or checked_address(default_address())
    try:
        session = Session(
            address=address, token_file=given.get("token_file"), json=False, color=False
        )
        with session.connect() as client:
            names = [one.name for one in client.list_reservations().reservations]
    except CliError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--nodes", type=NAMES, metavar="NODE[,NODE]...", help="Nodes to reserve, by name.")
@click.option(
    "--count",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Number of nodes to reserve instead. Wattfold selects them now, and prefers nodes in "
    "service whose jobs end before the start.",
)
@click.option(
    "--features",
    type=NAMES,
    metavar="NAME[,NAME]...",
    help="Features that every node selected by --count must have.",
)
@click.option(
    "--start",
    type=TIME_S,
    metavar="TIME|+DURATION",
    help="Start of the reservation, such as 2027-01-31T18:00 or +2h. Default: now.",
)
@click.option(
    "--end",
    type=TIME_S,
    metavar="TIME|+DURATION",
    help="End of the reservation, such as 2027-01-31T18:00 or +6h.",
)
@click.option(
    "--duration",
    type=DURATION_NS,
    metavar="DURATION",
    help="Length of the reservation, such as 2h, instead of --end.",
)
@click.option(
    "--users",
    type=NAMES,
    metavar="ACCOUNT[,ACCOUNT]...",
    help="Accounts whose jobs may use the reservation.",
)
@click.option(
    "--queue",
    default="",
    metavar="NAME",
    help="Queue whose jobs may use the reservation without naming it.",
)
@click.option(
    "--maintenance",
    is_flag=True,
    help="Reserve the nodes for maintenance: no job may run in the reservation.",
)
@click.option(
    "--end-jobs",
    is_flag=True,
    help="End jobs that still run on the nodes at the start and have no right to the "
    "reservation. They get their grace time. Restartable jobs are requeued.",
)
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown by `wattfold nodes`.")
@click.option(
    "--list", "listing", is_flag=True, help="List reservations, as `wattfold reservations` does."
)
@click.option(
    "--cancel",
    default="",
    metavar="NAME",
    shell_complete=complete_reservations,
    help="Cancel the reservation of this name.",
)
@session_command
def reserve(
    session: Session,
    name: str | None,
    nodes: Sequence[str] | None,
    count: int | None,
    features: Sequence[str] | None,
    start: float | None,
    end: float | None,
    duration: int | None,
    users: Sequence[str] | None,
    queue: str,
    maintenance: bool,
    end_jobs: bool,
    reason: str,
    listing: bool,
    cancel: str,
) -> None:
    """Reserve nodes for some jobs, or for maintenance. For operators.

    A reservation accepts jobs that name it (`wattfold submit --reservation NAME`) and jobs of its
    queue. Other jobs start on its nodes only if they end before it starts, by their time limits or
    else by their estimates. Jobs that still run on these nodes at the start continue, unless you
    give --end-jobs.

    For example: wattfold reserve new-kernel --nodes n1,n2 --start +4h --duration 2h --maintenance
    """
    if listing or cancel:
        if name or (listing and cancel):
            raise _usage("--list and --cancel NAME cannot be combined with other arguments")
        _cancel(session, cancel) if cancel else _list(session)
        return
    if not name:
        raise _usage("give a name for the reservation, or --list, or --cancel NAME")
    if (end is None) == (duration is None):
        raise _usage("give the end of the reservation: either --end or --duration")
    if bool(nodes) == bool(count):
        raise _usage("give the nodes of the reservation: either --nodes or --count")
    begin_s = start or time.time()
    request = pb.ReserveRequest(
        name=name,
        node_ids=nodes or (),
        count=count or 0,
        features=features or (),
        start_at_s=start or 0.0,
        end_at_s=begin_s + s_from_ns(duration) if duration is not None else end,
        users=users or (),
        queue=queue,
        maintenance=maintenance,
        end_jobs=end_jobs,
        reason=reason,
    )
    with session.connect() as client:
        made = client.reserve(request)
    if session.json:
        session.print_json(as_dict(made))
        return
    click.echo(f"{made.name} {_when(made.start_at_s)} to {_when(made.end_at_s)} {_which(made)}")
    if made.other_job_ids:
        jobs = " ".join(made.other_job_ids)
        click.echo(
            f"wattfold: jobs on the nodes without a right to the reservation: {jobs}", err=True
        )


@click.command()
@session_command
def reservations(session: Session) -> None:
    """List reservations and maintenance windows that are not over.

    JOBS are jobs on the nodes with a right to the reservation. OTHERS are jobs without this right.
    """
    _list(session)


def _usage(text: str) -> click.UsageError:
    return click.UsageError(text, click.get_current_context())


def _list(session: Session) -> None:
    with session.connect() as client:
        answer = client.list_reservations()
    if session.json:
        session.print_json(numbered("reservations", as_dict(answer)))
    elif answer.reservations:
        session.print(_table(answer.reservations))
    else:
        click.echo("No reservations.")


def _cancel(session: Session, name: str) -> None:
    with session.connect() as client:
        client.cancel_reservation(name)
    if session.json:
        session.print_json({"name": name, "result": "cancelled"})
    else:
        click.echo(f"{name} cancelled")


def _table(listed: Iterable[pb.Reservation]) -> PlainTable:
    table = plain_table(
        left("NAME"),
        left("STATE"),
        left("START"),
        left("END"),
        flexible("FOR"),
        flexible("NODES"),
        left("JOBS"),
        left("OTHERS"),
        flexible("REASON"),
    )
    for one in sorted(listed, key=lambda one: one.start_at_s):
        add_row(
            table,
            one.name,
            "active" if one.begun else "planned",
            _when(one.start_at_s),
            _when(one.end_at_s),
            _whose(one),
            _which(one),
            " ".join(one.job_ids) or f.NONE,
            " ".join(one.other_job_ids) or f.NONE,
            one.reason,
        )
    return table


def _whose(one: pb.Reservation) -> str:
    if one.maintenance:
        return "maintenance, ends jobs" if one.end_jobs else "maintenance"
    parts = [f"users {', '.join(one.users)}"] if one.users else []
    parts += [f"queue {one.queue}"] if one.queue else []
    parts += ["ends jobs"] if one.end_jobs else []
    return ", ".join(parts)


def _which(one: pb.Reservation) -> str:
    return ", ".join(one.node_ids)


def _when(time_s: float) -> str:
    return moment(time_s)
