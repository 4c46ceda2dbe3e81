"""The findings of SD-Policy's evaluation as a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.coordinator.simulation.experiments.report import Report, Section
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


def report_of(
    evaluation: Evaluation, known: Sequence[StandIn], draw: Draw, real: Sequence[Section] = ()
) -> Report:
    """Everything there is to say; ``real`` are sections of what was measured on real programs."""
    plan = evaluation.plan
    remarks = [
        f"{len(plan.seeds)} seeds of workloads 1 and 2, 95 % intervals over them in brackets; logs "
        "are one workload each and have none."
    ]
    if plan.missing:
        remarks.append(f"Omitted, because their logs are missing: {', '.join(plan.missing)}.")
    return Report(
        paper=PAPER,
        title="The evaluation of SD-Policy, run again",
        sections=[
            Section(
                name=one.family.name,
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
    """A line for every case of an experiment that gave its values."""
    rows: list[list[object]] = [
        ["workload", "seed", "passes", "policy", "model", "first_jobs", *MEASURES]
    ]
    for case in dict.fromkeys(findings.family.cases(findings.plan)):
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        words = [case.workload, case.seed, case.passes, policy_name(case.policy), case.model]
        rows.append([*words, case.count or "", *(f"{values[name]:.9g}" for name in MEASURES)])
    return rows
