"""The findings as files: a report for people, points as CSV, all of it as JSON.

Pictures are drawn by the caller's function (`figures.parm_evaluation`), as they stand above this.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from wattfold.coordinator.simulation.experiments.claim_tables import (
    claim_document,
    claim_rows,
    stand_in_document,
    stand_in_rows,
    write_text,
)
from wattfold.coordinator.simulation.experiments.parm.evaluation import Evaluation, Findings
from wattfold.coordinator.simulation.experiments.parm.measure import MEASURES
from wattfold.coordinator.simulation.experiments.parm.outcomes import Plan
from wattfold.coordinator.simulation.experiments.stand_in import StandIn

_COLUMNS = ("jobs", "parameter", "x", "policy", "measure", "mean", "low", "high", "seeds")
QUICK_NOTE = "quick: few settings and seeds; not the evaluation"


Draw = Callable[[Findings, Path], list[Path]]
"""Pictures of findings into a folder."""


def write_report(
    evaluation: Evaluation, known: Sequence[StandIn], folder: Path, draw: Draw
) -> list[Path]:
    """Writes everything below a folder and returns the files. Raises OSError and LogError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for findings in evaluation.findings:
        place = folder / findings.experiment.name
        place.mkdir(exist_ok=True)
        written.append(write_text(place / "points.csv", _csv(findings)))
        written += draw(findings, place)
    text = json.dumps(document(evaluation, known), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(folder / "verdicts.json", text))
    written.append(write_text(folder / "report.md", _markdown(evaluation, known, folder, written)))
    return written


def document(evaluation: Evaluation, known: Sequence[StandIn]) -> dict[str, object]:
    """Everything as plain data; what is not known (an interval of one seed) is null."""
    return {
        "paper": "Sarood, Langer, Gupta, Kale: Maximizing Throughput of Overprovisioned HPC Data "
        "Centers Under a Strict Power Budget, SC14",
        "experiments": [
            {
                "name": findings.experiment.name,
                "title": findings.experiment.title,
                "quick": findings.plan.quick,
                "seeds": list(findings.plan.seeds),
                "claims": [claim_document(judgement) for judgement in findings.judgements],
            }
            for findings in evaluation.findings
        ],
        "settings": evaluation.findings[0].plan.settings.document() if evaluation.findings else {},
        "stand_ins": [stand_in_document(item) for item in known],
        "cases": evaluation.cases,
        "cases_stored": evaluation.stored,
        "core_s": round(evaluation.core_s, 1),
        "failures": [
            {"case": f.label, "reason": f.reason, "trace": f.trace} for f in evaluation.failures
        ],
    }


def _csv(findings: Findings) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((*_COLUMNS, "quick") if findings.plan.quick else _COLUMNS)
    for point in findings.points:
        interval = point.interval
        numbers = (interval.mean, interval.low, interval.high)
        row: list[object] = [
            point.jobs,
            point.parameter,
            "" if math.isnan(point.x) else f"{point.x:g}",
            point.policy,
            point.measure,
            *("" if math.isnan(value) else f"{value:.9g}" for value in numbers),
            interval.count,
        ]
        writer.writerow([*row, "quick"] if findings.plan.quick else row)
    return stream.getvalue()


def _markdown(
    evaluation: Evaluation, known: Sequence[StandIn], folder: Path, written: Sequence[Path]
) -> str:
    lines = ["# The evaluation of PARM, run again", ""]
    for findings in evaluation.findings:
        lines += [f"## {findings.experiment.title}", "", _how(findings.plan), ""]
        lines += claim_rows(findings.judgements)
        lines.append("")
        place = folder / findings.experiment.name
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})"
            for path in written
            if path.parent == place and path.suffix == ".png"
        ]
        lines.append("")
    lines += stand_in_rows(known)
    lines += ["", "## Columns of the points", ""]
    lines += [f"- `{name}`: {words}" for name, words in MEASURES.items()]
    if evaluation.failures:
        lines += ["", "## Cases that failed", ""]
        lines += [f"- {f.label}: {f.reason}" for f in evaluation.failures]
    return "\n".join(lines) + "\n"


def _how(plan: Plan) -> str:
    seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else "1 seed"
    text = f"{seeds}; 95 % intervals over them in brackets, paired by seed."
    return f"**{QUICK_NOTE}.** {text}" if plan.quick else text
