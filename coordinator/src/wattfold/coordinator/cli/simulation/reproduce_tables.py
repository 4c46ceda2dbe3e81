"""The findings of an evaluation on a terminal: claim, measured value, verdict, reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from wattfold.coordinator.cli.shared.session import Session
from wattfold.coordinator.simulation.experiments.parm.evaluation import Evaluation, Findings
from wattfold.coordinator.simulation.experiments.parm.report import QUICK_NOTE
from wattfold.coordinator.simulation.experiments.stand_in import StandIn
from wattfold.coordinator.simulation.experiments.verdicts import Verdict

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.DIRECTION: "yellow",
    Verdict.NOT: "red",
    Verdict.UNDECIDED: "magenta",
}


def print_evaluation(
    session: Session, evaluation: Evaluation, known: Sequence[StandIn], folder: Path
) -> None:
    """Prints verdicts, stand-ins, and where the files are."""
    for findings in evaluation.findings:
        session.print(_verdicts(findings))
        session.print(Text())
    session.print(_stand_ins(known))
    session.print(Text())
    counts = [
        f"{sum(j.verdict is verdict for f in evaluation.findings for j in f.judgements)} {verdict}"
        for verdict in Verdict
    ]
    session.print(Text(f"Claims: {', '.join(counts)}."))
    session.print(
        Text(
            f"{evaluation.cases} cases, {evaluation.stored} of them from before; "
            f"{evaluation.core_s:.0f} s of processor time."
        )
    )
    if evaluation.broken:
        session.print(Text(f"Made again, their files were broken: {', '.join(evaluation.broken)}"))
    session.print(Text(f"Report, figures, points and single results: {folder}/report.md"))


def _verdicts(findings: Findings) -> Table:
    plan = findings.plan
    title = f"{findings.experiment.title}, {len(plan.seeds)} seeds"
    if plan.quick:
        title += f" -- {QUICK_NOTE.upper()}"
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
    )
    table.add_column("THE PAPER", overflow="fold", ratio=4)
    table.add_column("MEASURED", overflow="fold", ratio=4)
    table.add_column("VERDICT", no_wrap=True)
    table.add_column("WHY", overflow="fold", ratio=3)
    for judgement in findings.judgements:
        table.add_row(
            Text(judgement.claim.text),
            Text(judgement.measured),
            Text(judgement.verdict.value, style=_STYLES[judgement.verdict]),
            Text(judgement.why),
        )
    return table


def _stand_ins(known: Sequence[StandIn]) -> Table:
    table = Table(
        title="What the paper leaves open, and what stands for it",
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
