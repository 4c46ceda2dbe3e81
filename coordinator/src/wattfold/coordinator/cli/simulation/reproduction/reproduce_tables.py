"""Findings of an evaluation on a terminal: claim, measured value, verdict, reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.simulator.papers.report import EvaluationReport, titled
from wattfold.simulator.papers.stand_in import StandIn
from wattfold.simulator.papers.verdicts import Judgement, Verdict

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.DIRECTION: "yellow",
    Verdict.NOT: "red",
    Verdict.UNDECIDED: "magenta",
}


def print_report(session: Session, report: EvaluationReport, folder: Path) -> None:
    """Print verdicts, assumptions, and the paths of the files."""
    judgements: list[Judgement] = []
    for section in report.sections:
        title = titled(section)
        if report.quick:
            title += f" -- {report.quick.upper()}"
        session.print(verdict_table(title, section.judgements))
        session.print(Text())
        judgements += section.judgements
    session.print(stand_in_table(report.stand_ins))
    session.print(Text())
    print_counts(session, judgements)
    totals = report.totals
    session.print(
        Text(
            f"{totals.cases} cases, {totals.stored} of them from earlier runs; "
            f"{totals.core_s:.0f} s of CPU time."
        )
    )
    if totals.broken:
        session.print(
            Text(f"Repeated because their files were damaged: {', '.join(totals.broken)}")
        )
    where = f"Report, plots, {report.values} and results of all cases: {folder}/report.md"
    session.print(Text(where))


def print_counts(session: Session, judgements: Sequence[Judgement]) -> None:
    """Print how many claims have each verdict."""
    counts = [f"{sum(j.verdict is verdict for j in judgements)} {verdict}" for verdict in Verdict]
    session.print(Text(f"Claims: {', '.join(counts)}."))


def verdict_table(title: str, judgements: Sequence[Judgement]) -> Table:
    """Return a table of claims and measured values."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
    )
    table.add_column("CLAIM", overflow="fold", ratio=4)
    table.add_column("MEASURED", overflow="fold", ratio=4)
    table.add_column("VERDICT", no_wrap=True)
    table.add_column("REASON", overflow="fold", ratio=3)
    for judgement in judgements:
        table.add_row(
            Text(judgement.claim.text),
            Text(judgement.measured),
            Text(judgement.verdict.value, style=_STYLES[judgement.verdict]),
            Text(judgement.why),
        )
    return table


def stand_in_table(known: Sequence[StandIn]) -> Table:
    """Return a table of the assumptions for values that a paper does not state."""
    table = Table(
        title="Assumptions for values that the paper does not state",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, style="dim")
    for item in known:
        table.add_row(Text(item.name), Text(item.value), Text(item.option))
    return table
