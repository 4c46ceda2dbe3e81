"""`wattfold workload describe`: statistics of a log, and its invalid rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts import formatting
from wattfold.coordinator.cli.shared.texts.tables import (
    FieldTable,
    PlainTable,
    add_row,
    field_table,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.workloads.workload_options import (
    LOG_FILE,
    expected_failures,
    odd_row_options,
    policy_of,
    write_odd_rows,
)

if TYPE_CHECKING:
    from wattfold.simulator.workloads.odd_rows import FaultKind, Treatment
    from wattfold.simulator.workloads.summary import DistributionSummary, Histogram, Summary
    from wattfold.simulator.workloads.swf_reader import ReadLog

_BAR_WIDTH = 40


@click.command()
@click.argument("file", type=LOG_FILE)
@click.option(
    "--procs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processors of the machine. Default: the number in the header, or else the "
    "size of the largest job.",
)
@odd_row_options
@session_command
def describe(
    session: Session,
    file: Path,
    procs: int | None,
    on_odd: str,
    exceptions: Sequence[tuple[FaultKind, Treatment]],
    odd_rows_path: Path | None,
) -> None:
    """Show jobs, load, sizes, run times and invalid rows of a log.

    FILE is in the Standard Workload Format or a PA-HPC-SIM trace of jobs of units, plain or gzip.
    The sizes of a trace count units. The statistics are taken after the treatment of invalid rows.
    """
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_table
    from wattfold.simulator.workloads.log_reader import read_log
    from wattfold.simulator.workloads.summary import summarise

    with expected_failures():
        read = read_log(file, policy_of(on_odd, exceptions))
        if odd_rows_path:
            write_odd_rows(read.report, odd_rows_path)
    summary = summarise(read.workload, procs)
    if session.json:
        session.print_json(_document(file, summary, read))
        return
    session.print(_fields(file, summary, read))
    click.echo()
    session.print(_spreads(summary))
    for title, histogram, label in (
        ("Size", summary.size_histogram, _size_label),
        ("Run time", summary.run_histogram, _time_label),
    ):
        click.echo()
        session.print(_bars(title, histogram, label))
    click.echo()
    if read.report.rows:
        session.print(odd_row_table(read.report))
    else:
        click.echo("No invalid rows.")


def _fields(file: Path, summary: Summary, read: ReadLog) -> FieldTable:
    from wattfold.simulator.workloads.header import printable

    report, header = read.report, read.workload.header
    name = header.text("Installation") or header.text("Computer")
    fields = [("Log", printable(str(file)))]
    if name:
        fields.append(("Installation", printable(name)))
    fields += [
        ("Jobs", f"{summary.jobs} of {report.data_lines} rows"),
        ("Users", str(summary.users) if summary.users else formatting.NONE),
        ("Span", formatting.duration(summary.span_s)),
        ("Processors", str(summary.machine_procs)),
        ("Load", _number(summary.load)),
        ("Serial jobs", _percent(summary.serial_share)),
        ("Power of two", f"{_percent(summary.power_of_two_share)} of the parallel jobs"),
        ("Run / requested", _number(summary.accuracy)),
    ]
    if read.queue_names:
        fields.append(("Queues", ", ".join(printable(name) for name in read.queue_names)))
    if read.requests:
        shapes = len(set(read.requests.values()))
        fields.append(("Units", f"{shapes} kinds (cores, memory, GPUs and features)"))
    if report.array_elements:
        fields.append(("Array elements", str(report.array_elements)))
    return field_table([(key, value) for key, value in fields])


def _spreads(summary: Summary) -> PlainTable:
    from wattfold.simulator.workloads.summary import QUANTILES

    table = plain_table(
        left(""),
        right("KNOWN"),
        right("MEAN"),
        right("MIN"),
        *(right(f"{quantile:.0%}") for quantile in QUANTILES),
        right("MAX"),
    )

    def row(title: str, spread: DistributionSummary, text: Any) -> None:
        values = (spread.mean, spread.least, *spread.quantiles, spread.greatest)
        add_row(table, title, str(spread.known), *(text(value) for value in values))

    row("Size", summary.size, _number)
    row("Run time", summary.run_s, _seconds)
    row("Requested", summary.requested_s, _seconds)
    row("Between arrivals", summary.interarrival_s, _seconds)
    return table


def _bars(title: str, histogram: Histogram, label: Any) -> PlainTable:
    table = plain_table(left(title.upper()), right("JOBS"), left(""))
    most = max(histogram.counts, default=0)
    for index, count in enumerate(histogram.counts):
        length = math.ceil(_BAR_WIDTH * count / most) if most else 0
        add_row(table, label(histogram.edges, index), str(count), "#" * length)
    return table


def _size_label(edges: Sequence[float], index: int) -> str:
    low = int(edges[index])
    high = int(edges[index + 1]) - 1 if math.isfinite(edges[index + 1]) else 2 * low - 1
    return str(low) if high <= low else f"{low}-{high}"


def _time_label(edges: Sequence[float], index: int) -> str:
    if math.isinf(edges[index + 1]):
        return f"{formatting.duration(edges[index])} or more"
    low, high = formatting.duration(edges[index]), formatting.duration(edges[index + 1])
    return f"{low} to {high}" if edges[index] else f"below {high}"


def _number(value: float) -> str:
    return (
        formatting.NONE if math.isnan(value) else f"{value:.4g}" if value < 1000 else f"{value:.0f}"
    )


def _seconds(value: float) -> str:
    return formatting.NONE if math.isnan(value) else formatting.duration(value)


def _percent(share: float) -> str:
    return formatting.NONE if math.isnan(share) else f"{share:.1%}"


def _document(file: Path, summary: Summary, read: ReadLog) -> dict[str, Any]:
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_counts
    from wattfold.simulator.workloads.header import printable
    from wattfold.simulator.workloads.summary import QUANTILES

    report, header = read.report, read.workload.header
    return {
        "file": printable(str(file)),
        "header": [{"key": key, "value": value} for key, value in header.pairs()],
        "rows": report.data_lines,
        "array_elements": report.array_elements,
        "queues": list(read.queue_names),
        "unit_kinds": len(set(read.requests.values())),
        **dataclasses.asdict(summary),
        "quantiles": list(QUANTILES),
        "odd_rows": odd_row_counts(report),
    }
