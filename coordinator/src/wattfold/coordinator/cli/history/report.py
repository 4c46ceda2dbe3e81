"""`report`: sums over the jobs that have ended, by user, account, application, queue or day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.contract.local_time import local
from wattfold.contract.units import eur_text
from wattfold.coordinator.cli.history.report_file import check_file, write_file
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import MOMENT
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.formats import (
    CSV,
    JSON,
    TABLE,
    Form,
    chosen_format,
    format_option,
    print_csv,
)
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    Cell,
    PlainTable,
    Styled,
    add_row,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from rich.text import Text

BY = ("user", "account", "app", "queue", "day")
_BAR_CELLS = 20
_COLUMNS = tuple(field.name for field in pb.ReportRow.DESCRIPTOR.fields)


@click.command()
@click.option(
    "--by",
    type=click.Choice(BY),
    default="user",
    show_default=True,
    help="Key of the rows: user, account (project), application, queue, or day of the end of the "
    "jobs.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="First day: 7d for the day seven days ago, or a date such as 2026-11-22.",
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Last day, in the same formats.")
@click.option("--user", default="", metavar="ACCOUNT", help="Name of the only account to count.")
@click.option(
    "--price-per-kwh",
    type=click.FloatRange(min=0, max=1000),
    metavar="EUR",
    help="Price of energy, for a column with the cost of each row. Default: no such column.",
)
@click.option(
    "--output",
    "-o",
    "output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the rows instead of standard output: .csv, .json or .parquet by its name.",
)
@format_option
@session_command
def report(
    session: Session,
    by: str,
    since: float | None,
    until: float | None,
    user: str,
    price_per_kwh: float | None,
    output: Path | None,
    form: Form,
) -> None:
    """Sum up ended jobs by user, account, app, queue or day.

    Jobs count on the day of their end, by the calendar of the coordinator's host. Both days of a
    period are included. FAILED counts jobs that failed, were lost or reached their time limit. KWH
    contains the shares of idle energy and the energy of GPUs, and the bar compares it with the
    largest row. CAP W is the mean cap weighted by core hours. RESIDUAL H is the CPU time outside of
    the masks.

    GIVEN UP KWH is the energy by which jobs stayed below their demand: the power of their cores at
    the maximum of the node, or at their requested cap. GAINED KWH is the energy above their even
    share, which is their part if the budget were divided evenly over all cores.

    Operators see the jobs of all accounts, other users only their own.
    """
    form = chosen_format(session, form)
    if output is not None:
        if form != TABLE:
            raise click.UsageError("--output and another format exclude each other")
        check_file(output)
    request = pb.GetReportRequest(
        by=by,
        first_day=_day(since) if since else 0,
        last_day=_day(until) if until else 0,
        user=user,
    )
    with session.connect() as client:
        answer = client.report(request)
    columns = _COLUMNS if price_per_kwh is None else (*_COLUMNS, "eur")
    if output is not None:
        write_file(output, columns, numbered("report", _priced(answer, price_per_kwh)))
        click.echo(f"{len(answer.rows)} rows written to {output}")
    elif form == JSON:
        session.print_json(numbered("report", _priced(answer, price_per_kwh)))
    elif form == CSV:
        print_csv(columns, _priced(answer, price_per_kwh)["rows"])
    elif answer.rows:
        session.print(_table(answer, by, price_per_kwh))
        if answer.own_only:
            click.echo("Only your own jobs are counted.")
    else:
        whose = "of yours " if answer.own_only else ""
        click.echo(f"No matching jobs {whose}have ended.")


def _day(time_s: float) -> int:
    return int(f"{local(time_s):%Y%m%d}")


def _priced(
    answer: pb.GetReportResponse, price: float | None
) -> dict[str, list[dict[str, object]]]:
    """Return the answer as plain data, with the cost of each row if there is a price."""
    document = as_dict(answer)
    if price is not None:
        for row in [*document["rows"], document["total"]]:
            if row is not None:
                row["eur"] = row["energy_kwh"] * price
        document["price_per_kwh"] = price
    return document


def _table(answer: pb.GetReportResponse, by: str, price: float | None) -> PlainTable:
    table = plain_table(
        left(by.upper()),
        right("JOBS"),
        right("FAILED"),
        right("CORE H"),
        right("KWH"),
        left(""),
        *([] if price is None else [right("EUR")]),
        right("CAP W"),
        right("GIVEN UP KWH"),
        right("GAINED KWH"),
        right("RESIDUAL H"),
    )
    most = max(row.energy_kwh for row in answer.rows)
    for row in answer.rows:
        _add(table, row, row.key or "(none)", _bar(row.energy_kwh, most), price)
    _add(table, answer.total, Styled("total", "bold"), "", price)
    return table


def _bar(energy_kwh: float, most_kwh: float) -> Text | str:
    if not most_kwh:
        return ""
    from wattfold.coordinator.cli.shared.texts.power_bar import power_bar

    return power_bar(round(energy_kwh * 1e9), round(most_kwh * 1e9), _BAR_CELLS, "green")


def _add(table: PlainTable, row: pb.ReportRow, key: Cell, bar: Cell, price: float | None) -> None:
    add_row(
        table,
        key,
        str(row.jobs),
        str(row.failures),
        f"{row.core_h:.1f}",
        f"{row.energy_kwh:.3f}",
        bar,
        *([] if price is None else [eur_text(row.energy_kwh * price)]),
        f"{row.mean_cap_w:.1f}" if row.mean_cap_w else f.NONE,
        f"{row.given_up_kwh:.3f}",
        f"{row.gained_kwh:.3f}",
        f"{row.residual_h:.2f}",
    )
