"""The findings as files: a report for people, measures as CSV, all of it as JSON.

Pictures are drawn by the caller's function (`figures.slowdown_evaluation`), as they stand above.
"""

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
from wattfold.coordinator.simulation.experiments.samples import MissingError
from wattfold.coordinator.simulation.experiments.slowdown_driven.case import policy_name
from wattfold.coordinator.simulation.experiments.slowdown_driven.evaluation import (
    Evaluation,
    Findings,
)
from wattfold.coordinator.simulation.experiments.slowdown_driven.measure import MEASURES
from wattfold.coordinator.simulation.experiments.stand_in import StandIn

PAPER = (
    "D'Amico, Jokanovic, Corbalan: Holistic Slowdown Driven Scheduling and Resource Management for "
    "Malleable Jobs, ICPP 2019"
)
QUICK_NOTE = "quick: the first jobs of each workload and few seeds; not the evaluation"

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
        written.append(write_text(place / "measures.csv", _csv(findings)))
        written += draw(findings, place)
    text = json.dumps(document(evaluation, known), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(folder / "verdicts.json", text))
    report = _markdown(evaluation, known, folder, written)
    written.append(write_text(folder / "report.md", report))
    return written


def document(evaluation: Evaluation, known: Sequence[StandIn]) -> dict[str, object]:
    """Everything as plain data; what is not known (an interval of one seed) is null."""
    plan = evaluation.plan
    return {
        "paper": PAPER,
        "quick": plan.quick,
        "seeds": list(plan.seeds),
        "workloads": list(plan.workloads),
        "workloads_missing": list(plan.missing),
        "experiments": [
            {
                "name": findings.experiment.name,
                "title": findings.experiment.title,
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
    writer.writerow(["workload", "seed", "passes", "policy", "model", "first_jobs", *MEASURES])
    for case in dict.fromkeys(findings.experiment.cases(findings.plan)):
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        words = [case.workload, case.seed, case.passes, policy_name(case.policy), case.model]
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        writer.writerow([*words, case.count or "", *numbers])
    return stream.getvalue()


def _markdown(
    evaluation: Evaluation, known: Sequence[StandIn], folder: Path, written: Sequence[Path]
) -> str:
    plan = evaluation.plan
    lines = ["# The evaluation of SD-Policy, run again", ""]
    if plan.quick:
        lines += [f"**{QUICK_NOTE}.**", ""]
    lines += [
        f"{len(plan.seeds)} seeds of workloads 1 and 2, 95 % intervals over them in brackets; logs "
        "are one workload each and have none.",
        "",
    ]
    if plan.missing:
        lines += [f"Left out, as their logs are not there: {', '.join(plan.missing)}.", ""]
    for findings in evaluation.findings:
        lines += [f"## {findings.experiment.title}", ""]
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
    lines += ["", "## Columns of the measures", ""]
    lines += [f"- `{name}`: {words}" for name, words in MEASURES.items()]
    if evaluation.failures:
        lines += ["", "## Cases that failed", ""]
        lines += [f"- {f.label}: {f.reason}" for f in evaluation.failures]
    return "\n".join(lines) + "\n"
