"""The findings of PARM's evaluation as a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.coordinator.simulation.experiments.parm.evaluation import Evaluation, Findings
from wattfold.coordinator.simulation.experiments.parm.measure import MEASURES
from wattfold.coordinator.simulation.experiments.report import Report, Section
from wattfold.coordinator.simulation.experiments.stand_in import StandIn

PAPER = (
    "Sarood, Langer, Gupta, Kale: Maximizing Throughput of Overprovisioned HPC Data Centers Under "
    "a Strict Power Budget, SC14"
)
QUICK_NOTE = "quick: few settings and seeds; not the evaluation"
_COLUMNS = ("jobs", "parameter", "x", "policy", "measure", "mean", "low", "high", "seeds")

Draw = Callable[[Findings, Path], list[Path]]
"""Pictures of findings into a folder."""


def report_of(evaluation: Evaluation, known: Sequence[StandIn], draw: Draw) -> Report:
    """Everything there is to say."""
    findings = evaluation.findings
    return Report(
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


def _section(findings: Findings, draw: Draw) -> Section:
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


def _table(findings: Findings) -> list[list[object]]:
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
