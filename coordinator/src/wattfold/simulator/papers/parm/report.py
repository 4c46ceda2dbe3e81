"""Report of the findings of PARM's evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.parm.evaluation import ExperimentFindings, ParmEvaluation
from wattfold.simulator.papers.parm.measure import MEASURES
from wattfold.simulator.papers.report import EvaluationReport, Section
from wattfold.simulator.papers.stand_in import StandIn

PAPER = (
    "Sarood, Langer, Gupta, Kale: Maximizing Throughput of Overprovisioned HPC Data Centers Under "
    "a Strict Power Budget, SC14"
)
QUICK_NOTE = "quick: few settings and seeds; not the evaluation"
_COLUMNS = ("jobs", "parameter", "x", "policy", "measure", "mean", "low", "high", "seeds")

Draw = Callable[[ExperimentFindings, Path], list[Path]]
"""Function that draws plots of findings into a folder."""


def report_of(evaluation: ParmEvaluation, known: Sequence[StandIn], draw: Draw) -> EvaluationReport:
    """Return the whole report."""
    findings = evaluation.findings
    return EvaluationReport(
        paper=PAPER,
        title="The evaluation of PARM, run again",
        sections=[_section(one, draw) for one in findings],
        values="points",
        measures=MEASURES,
        settings=findings[0].plan.settings.document() if findings else {},
        stand_ins=known,
        totals=evaluation.totals,
        quick=QUICK_NOTE if any(one.plan.quick for one in findings) else "",
    )


def _section(findings: ExperimentFindings, draw: Draw) -> Section:
    plan = findings.plan
    return Section(
        name=findings.experiment.name,
        title=findings.experiment.title,
        judgements=findings.judgements,
        table=_table(findings),
        draw=partial(draw, findings),
        seeds=len(plan.seeds),
        how="95 % intervals over seeds in brackets, paired by seed.",
        facts={"quick": plan.quick, "seeds": list(plan.seeds)},
    )


def _table(findings: ExperimentFindings) -> list[list[object]]:
    quick = ["quick"] if findings.plan.quick else []
    rows: list[list[object]] = [[*_COLUMNS, *quick]]
    for point in findings.points:
        interval = point.interval
        numbers = (interval.mean, interval.low, interval.high)
        rows.append(
            [
                point.jobs,
                point.parameter,
                "" if math.isnan(point.x) else f"{point.x:g}",
                point.policy,
                point.measure,
                *("" if math.isnan(value) else f"{value:.9g}" for value in numbers),
                interval.count,
                *quick,
            ]
        )
    return rows
