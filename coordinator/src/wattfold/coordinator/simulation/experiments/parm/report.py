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

from wattfold.coordinator.simulation.experiments.parm.evaluation import Evaluation, Findings
from wattfold.coordinator.simulation.experiments.parm.measure import MEASURES
from wattfold.coordinator.simulation.experiments.parm.outcomes import Plan
from wattfold.coordinator.simulation.experiments.parm.settings import StandIn
from wattfold.coordinator.simulation.experiments.verdicts import Judgement
from wattfold.coordinator.simulation.workloads.swf_writer import whole_file

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
        written.append(_file(place / "points.csv", _csv(findings)))
        written += draw(findings, place)
    text = json.dumps(document(evaluation, known), indent=1, ensure_ascii=False) + "\n"
    written.append(_file(folder / "verdicts.json", text))
    written.append(_file(folder / "report.md", _markdown(evaluation, known, folder, written)))
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
                "claims": [_claim(judgement) for judgement in findings.judgements],
            }
            for findings in evaluation.findings
        ],
        "settings": evaluation.findings[0].plan.settings.document() if evaluation.findings else {},
        "stand_ins": [
            {"name": s.name, "value": s.value, "why": s.why, "option": s.option} for s in known
        ],
        "cases": evaluation.cases,
        "cases_stored": evaluation.stored,
        "core_s": round(evaluation.core_s, 1),
        "failures": [
            {"case": f.label, "reason": f.reason, "trace": f.trace} for f in evaluation.failures
        ],
    }


def _claim(judgement: Judgement) -> dict[str, object]:
    interval = judgement.interval
    return {
        "key": judgement.claim.key,
        "claim": judgement.claim.text,
        "source": judgement.claim.source,
        "measured": judgement.measured,
        "verdict": judgement.verdict.value,
        "why": judgement.why,
        "mean": _known(interval.mean) if interval else None,
        "low": _known(interval.low) if interval else None,
        "high": _known(interval.high) if interval else None,
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
        lines += ["| claim | source | measured | verdict | why |", "|---|---|---|---|---|"]
        lines += [
            f"| {j.claim.text} | {j.claim.source} | {j.measured} | **{j.verdict}** | {j.why} |"
            for j in findings.judgements
        ]
        lines.append("")
        place = folder / findings.experiment.name
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})"
            for path in written
            if path.parent == place and path.suffix == ".png"
        ]
        lines.append("")
    lines += ["## What the paper leaves open, and what stands for it", ""]
    lines += ["| | here | why | option |", "|---|---|---|---|"]
    lines += [f"| {s.name} | {s.value} | {s.why} | {s.option and f'`{s.option}`'} |" for s in known]
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


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _file(path: Path, text: str) -> Path:
    with whole_file(path) as stream:
        stream.write(text.encode())
    return path
