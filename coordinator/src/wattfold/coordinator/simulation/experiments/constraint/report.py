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
from wattfold.coordinator.simulation.experiments.constraint.case import short
from wattfold.coordinator.simulation.experiments.constraint.evaluation import Evaluation, Findings
from wattfold.coordinator.simulation.experiments.constraint.settings import (
    MEASURES,
    POLICIES,
    PUBLISHED,
)
from wattfold.coordinator.simulation.experiments.samples import MissingError
from wattfold.coordinator.simulation.experiments.stand_in import StandIn
from wattfold.coordinator.simulation.sweep.case import Values

PAPER = "Bridi, Lombardi, Bartolini, Benini, Milano: A CP Scheduler for High-Performance Computers"
QUICK_NOTE = "quick: few instances; not the evaluation"
SHOWN = {"wqt": "WQT", "nl": "NL", "tr_s": "TR, s", "ao_s": "AO, s"}

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
        place = folder / findings.family
        place.mkdir(exist_ok=True)
        written.append(write_text(place / "measures.csv", _csv(findings)))
        pictures[findings.family] = draw(findings, place)
        written += pictures[findings.family]
    text = json.dumps(document(evaluation, known), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(folder / "verdicts.json", text))
    report = _markdown(evaluation, known, folder, pictures)
    written.append(write_text(folder / "report.md", report))
    return written


def document(evaluation: Evaluation, known: Sequence[StandIn]) -> dict[str, object]:
    """Everything as plain data."""
    return {
        "paper": PAPER,
        "quick": evaluation.plan.quick,
        "published": [one._asdict() for one in PUBLISHED],
        "families": [
            {
                "name": findings.family,
                "title": findings.title,
                "claims": [claim_document(judgement) for judgement in findings.judgements],
                "instances": [
                    {"instance": short(instance), "policy": policy, **values}
                    for instance, policy, values in found(findings)
                ],
            }
            for findings in evaluation.findings
        ],
        "settings": evaluation.plan.settings.document(),
        "stand_ins": [stand_in_document(item) for item in known],
        "cases": evaluation.cases,
        "cases_stored": evaluation.stored,
        "core_s": round(evaluation.core_s, 1),
        "failures": [
            {"case": f.label, "reason": f.reason, "trace": f.trace} for f in evaluation.failures
        ],
    }


def found(findings: Findings) -> list[tuple[str, str, Values]]:
    """Instance, policy and values of every case that gave some."""
    rows = []
    for case in findings.plan.cases(findings.family):
        try:
            rows.append((case.instance, case.policy, findings.samples.values(case)))
        except MissingError:
            continue
    return rows


def published_rows() -> list[str]:
    """The paper's Table 1 in Markdown."""
    rows = ["| | policy | WQT | NL | TR, s | AO, s |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {one.test} | {one.policy} | {one.wqt:g} | {one.nl} | {one.tr_s:.0f} | {one.ao_s:g} |"
        for one in PUBLISHED
    ]
    return rows


def instance_rows(findings: Findings) -> list[str]:
    """A line an instance, the policies side by side, in Markdown: WQT / NL / TR, and AO."""
    values = {(instance, policy): one for instance, policy, one in found(findings)}
    policies = [name for name in POLICIES if any(policy == name for _, policy in values)]
    rows = [
        f"| WQT / NL / TR in s; AO in ms | {' | '.join(policies)} |",
        "|---" * (len(policies) + 1) + "|",
    ]
    for instance in findings.plan.instances(findings.family):
        cells = [_cell(values.get((instance, policy))) for policy in policies]
        rows.append(f"| {short(instance)} | {' | '.join(cells)} |")
    return rows


def _cell(values: Values | None) -> str:
    if values is None:
        return "-"
    late = f"{values['nl']:.0f} / {values['tr_s']:,.0f}"
    return f"{values['wqt']:.4g} / {late}; {values['ao_s'] * 1e3:.3g}"


def _csv(findings: Findings) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["instance", "policy", *MEASURES])
    for instance, policy, values in found(findings):
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        writer.writerow([short(instance), policy, *numbers])
    return stream.getvalue()


def _markdown(
    evaluation: Evaluation,
    known: Sequence[StandIn],
    folder: Path,
    pictures: dict[str, list[Path]],
) -> str:
    lines = ["# The evaluation of the CP scheduler, run again", ""]
    if evaluation.plan.quick:
        lines += [f"**{QUICK_NOTE}.**", ""]
    lines += ["## Published (Table 1)", "", *published_rows(), ""]
    for findings in evaluation.findings:
        lines += [f"## {findings.title}", "", *instance_rows(findings), ""]
        lines += [*claim_rows(findings.judgements), ""]
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})" for path in pictures[findings.family]
        ]
        lines.append("")
    lines += stand_in_rows(known)
    lines += ["", "## Columns of the measures", ""]
    lines += [f"- `{name}`: {words}" for name, words in MEASURES.items()]
    if evaluation.failures:
        lines += ["", "## Cases that failed", ""]
        lines += [f"- {f.label}: {f.reason}" for f in evaluation.failures]
    return "\n".join(lines) + "\n"
