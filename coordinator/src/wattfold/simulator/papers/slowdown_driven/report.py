"""Report of the findings of SD-Policy's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.report import EvaluationReport, Section
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.papers.slowdown_driven.case import WORTH, policy_name
from wattfold.simulator.papers.slowdown_driven.evaluation import (
    Evaluation,
    Findings,
)
from wattfold.simulator.papers.slowdown_driven.measure import MEASURES
from wattfold.simulator.papers.stand_in import StandIn

PAPER = (
    "D'Amico, Jokanovic, Corbalan: Holistic Slowdown Driven Scheduling and Resource Management for "
    "Malleable Jobs, ICPP 2019"
)
QUICK_NOTE = "quick: the first jobs of each workload and few seeds; not the evaluation"

Draw = Callable[[Findings, Path], list[Path]]
"""Function that draws plots of findings into a folder."""


def report_of(
    evaluation: Evaluation, known: Sequence[StandIn], draw: Draw, real: Sequence[Section] = ()
) -> EvaluationReport:
    """Return the whole report; ``real``: sections on measurements of real programs."""
    plan = evaluation.plan
    remarks = [
        f"{len(plan.seeds)} seeds of workloads 1 and 2, 95 % intervals over them in brackets; logs "
        "are one workload each and have none."
    ]
    if plan.missing:
        remarks.append(f"Omitted, because their logs are missing: {', '.join(plan.missing)}.")
    return EvaluationReport(
        paper=PAPER,
        title="The evaluation of SD-Policy, run again",
        sections=[
            Section(
                name=f"{one.family.name}-{one.plan.mate_end}",
                title=one.title,
                judgements=one.judgements,
                table=_table(one),
                draw=partial(draw, one),
            )
            for one in evaluation.findings
        ]
        + list(real),
        values="measures",
        measures=MEASURES,
        settings=plan.settings.document(),
        stand_ins=known,
        totals=evaluation.totals,
        quick=QUICK_NOTE if plan.quick else "",
        remarks=remarks,
        facts={
            "seeds": list(plan.seeds),
            "workloads": list(plan.workloads),
            "workloads_missing": list(plan.missing),
        },
    )


def _table(findings: Findings) -> list[list[object]]:
    """Return a row for every case of an experiment with a result."""
    columns = "workload", "seed", "passes", "policy", "model", "mate_end", "gain", "first_jobs"
    rows: list[list[object]] = [[*columns, *MEASURES]]
    for case in dict.fromkeys(findings.family.cases(findings.plan)):
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        gain = case.settings.least_gain if case.policy == WORTH else ""
        named = case.workload, case.seed, case.passes, policy_name(case.policy), case.model
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        rows.append([*named, case.mate_end, gain, case.count or "", *numbers])
    return rows
