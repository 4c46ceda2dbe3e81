"""The findings as files: a report for people, measures as CSV, all of it as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from wattfold.coordinator.simulation.experiments.claim_tables import (
    claim_document,
    claim_rows,
    stand_in_document,
    stand_in_rows,
    write_text,
)
from wattfold.coordinator.simulation.experiments.equipartition.evaluation import (
    Evaluation,
    Findings,
)
from wattfold.coordinator.simulation.experiments.equipartition.measure import MEASURES
from wattfold.coordinator.simulation.experiments.samples import MissingError
from wattfold.coordinator.simulation.experiments.stand_in import StandIn

PAPER = "Kale, Kumar, DeSouza: A Malleable-Job System for Timeshared Parallel Machines, CCGrid 2002"
QUICK_NOTE = "quick: short runs and few seeds; not the evaluation"

Draw = Callable[[Findings, Path], list[Path]]
"""Pictures of findings into a folder."""


def write_report(
    evaluation: Evaluation, known: Sequence[StandIn], folder: Path, draw: Draw
) -> list[Path]:
    """Writes everything below a folder and returns the files. Raises OSError and LogError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    pictures: dict[str, list[Path]] = {}
    for findings in evaluation.findings:
        place = folder / findings.experiment.name
        place.mkdir(exist_ok=True)
        written.append(write_text(place / "measures.csv", _csv(findings)))
        pictures[findings.experiment.name] = draw(findings, place)
        written += pictures[findings.experiment.name]
    text = json.dumps(document(evaluation, known), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(folder / "verdicts.json", text))
    report = _markdown(evaluation, known, folder, pictures)
    written.append(write_text(folder / "report.md", report))
    return written


def document(evaluation: Evaluation, known: Sequence[StandIn]) -> dict[str, object]:
    """Everything as plain data; what is not known (an interval of one seed) is null."""
    plan = evaluation.plan
    return {
        "paper": PAPER,
        "quick": plan.quick,
        "experiments": [
            {
                "name": findings.experiment.name,
                "title": findings.experiment.title,
                "jobs": findings.experiment.jobs,
                "seeds": list(plan.seeds_of(findings.experiment.jobs)),
                "claims": [claim_document(judgement) for judgement in findings.judgements],
            }
            for findings in evaluation.findings
        ],
        "settings": plan.settings.document(),
        "stand_ins": [stand_in_document(item) for item in known],
        "cases": evaluation.cases,
        "cases_stored": evaluation.stored,
        "core_s": round(evaluation.core_s, 1),
        "failures": [
            {"case": f.label, "reason": f.reason, "trace": f.trace} for f in evaluation.failures
        ],
    }


def _csv(findings: Findings) -> str:
    """A line for every case of an experiment that gave its values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["scheduler", "load", "jobs", "seed", *MEASURES])
    for case in findings.plan.all_cases(findings.experiment.jobs):
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        writer.writerow([case.scheduler, f"{case.load:g}", case.jobs, case.seed, *numbers])
    return stream.getvalue()


def _markdown(
    evaluation: Evaluation,
    known: Sequence[StandIn],
    folder: Path,
    pictures: dict[str, list[Path]],
) -> str:
    lines = ["# The evaluation of the adaptive job scheduler, run again", ""]
    if evaluation.plan.quick:
        lines += [f"**{QUICK_NOTE}.**", ""]
    lines += ["95 % intervals over seeds in brackets, paired where schedulers are compared.", ""]
    for findings in evaluation.findings:
        seeds = len(evaluation.plan.seeds_of(findings.experiment.jobs))
        lines += [f"## {findings.experiment.title}, {seeds} seeds", ""]
        lines += [*claim_rows(findings.judgements), ""]
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})"
            for path in pictures[findings.experiment.name]
        ]
        lines.append("")
    lines += stand_in_rows(known)
    lines += ["", "## Columns of the measures", ""]
    lines += [f"- `{name}`: {words}" for name, words in MEASURES.items()]
    if evaluation.failures:
        lines += ["", "## Cases that failed", ""]
        lines += [f"- {f.label}: {f.reason}" for f in evaluation.failures]
    return "\n".join(lines) + "\n"
