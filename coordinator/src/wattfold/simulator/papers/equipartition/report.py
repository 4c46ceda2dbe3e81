"""Report of the findings about equipartition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.equipartition.evaluation import (
    Evaluation,
    Findings,
)
from wattfold.simulator.papers.equipartition.measure import MEASURES
from wattfold.simulator.papers.report import EvaluationReport, Section
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.papers.stand_in import StandIn

PAPER = "Kale, Kumar, DeSouza: A Malleable-Job System for Timeshared Parallel Machines, CCGrid 2002"
QUICK_NOTE = "quick: short runs and few seeds; not the evaluation"

Draw = Callable[[Findings, Path], list[Path]]
"""Function that draws plots of findings into a folder."""


def report_of(
    evaluation: Evaluation,
    known: Sequence[StandIn],
    draw: Draw,
    real: Sequence[Section] = (),
) -> EvaluationReport:
    """Return the whole report. ``real``: sections on measurements of real programs, if any."""
    plan = evaluation.plan
    return EvaluationReport(
        paper=PAPER,
        title="The evaluation of the adaptive job scheduler, run again",
        sections=[*(_section(one, draw) for one in evaluation.findings), *real],
        values="measures",
        measures=MEASURES,
        settings=plan.settings.document(),
        stand_ins=known,
        totals=evaluation.totals,
        quick=QUICK_NOTE if plan.quick else "",
        remarks=["95 % intervals over seeds in brackets, paired where schedulers are compared."],
    )


def _section(findings: Findings, draw: Draw) -> Section:
    jobs = findings.family.jobs
    seeds = findings.plan.seeds_of(jobs)
    return Section(
        name=findings.family.name,
        title=findings.title,
        judgements=findings.judgements,
        table=_table(findings),
        draw=partial(draw, findings),
        seeds=len(seeds),
        facts={"jobs": jobs, "seeds": list(seeds)},
    )


def _table(findings: Findings) -> list[list[object]]:
    """Return a row for every case of an experiment with a result."""
    rows: list[list[object]] = [["scheduler", "load", "jobs", "seed", *MEASURES]]
    for case in findings.plan.all_cases(findings.family.jobs):
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        rows.append([case.scheduler, f"{case.load:g}", case.jobs, case.seed, *numbers])
    return rows
