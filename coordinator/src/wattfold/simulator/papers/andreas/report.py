"""Report of the findings about ANDREAS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.andreas.case import GAP, TrainingCase
from wattfold.simulator.papers.andreas.evaluation import Evaluation, Findings
from wattfold.simulator.papers.andreas.settings import (
    GAP_MEASURES,
    MEASURES,
    SCENARIOS,
)
from wattfold.simulator.papers.report import EvaluationReport, Section
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.papers.stand_in import StandIn
from wattfold.simulator.results.intervals import mean_interval
from wattfold.simulator.sweep.case import Values

PAPER = (
    "Filippini, Lattuada, Amaldi, Ciavotta, Ardagna and others: ANDREAS, Artificial intelligence "
    "traiNing scheDuler foR accElerAted resource clusterS, FiCloud 2021"
)
QUICK_NOTE = "quick: small machines and few seeds; not the evaluation"

Draw = Callable[[Findings, Path], list[Path]]
"""Function that draws plots of findings into a folder."""


def report_of(
    evaluation: Evaluation,
    known: Sequence[StandIn],
    draw: Draw,
    live: Sequence[Section] = (),
) -> EvaluationReport:
    """Return the whole report. ``live``: sections on live runs."""
    plan = evaluation.plan
    return EvaluationReport(
        paper=PAPER,
        title="The evaluation of ANDREAS, run again",
        sections=[*(_section(one, draw) for one in evaluation.findings), *live],
        values="measures",
        measures={**MEASURES, **GAP_MEASURES},
        settings=plan.settings.document(),
        stand_ins=known,
        totals=evaluation.totals,
        quick=QUICK_NOTE if plan.quick else "",
        remarks=["95 % intervals over seeds in brackets, paired where policies are compared."],
        facts={"published": {str(one.number): one.published_saving for one in SCENARIOS}},
    )


def _section(findings: Findings, draw: Draw) -> Section:
    seeds = findings.plan.seeds_of(findings.family)
    return Section(
        name=findings.family,
        title=findings.title,
        judgements=findings.judgements,
        table=_gap_table(findings) if findings.family == GAP else _table(findings),
        draw=partial(draw, findings),
        seeds=len(seeds),
        how="" if findings.family == GAP else "\n".join(cost_rows(findings)),
        facts={"seeds": list(seeds), "nodes": list(findings.plan.sizes)},
    )


def found(findings: Findings) -> list[tuple[TrainingCase, Values]]:
    """Return every simulation of a family that has values."""
    rows = []
    for group in findings.plan.groups(findings.family):
        for case in group:
            try:
                rows.append((case, findings.samples.values(case)))
            except MissingError:
                continue
    return rows


def _table(findings: Findings) -> list[list[object]]:
    head = ["scenario", "nodes", "seed", "policy", "price", "budget_share", *MEASURES]
    rows: list[list[object]] = [[*head]]
    for case, values in found(findings):
        what = [case.scenario, case.nodes, case.seed, case.policy, case.price]
        numbers = [f"{values[name]:.9g}" for name in MEASURES]
        rows.append([*what, f"{case.budget_share:g}", *numbers])
    return rows


def _gap_table(findings: Findings) -> list[list[object]]:
    rows: list[list[object]] = [["seed", *GAP_MEASURES]]
    for case in findings.plan.gaps():
        try:
            values = findings.samples.values(case)
        except MissingError:
            continue
        rows.append([case.seed, *(f"{values[name]:.9g}" for name in GAP_MEASURES)])
    return rows


def cost_rows(findings: Findings) -> list[str]:
    """Return means over the seeds in Markdown, a line per group of cases."""
    head = "case | nodes | policy | total, EUR | energy, EUR | tardiness, EUR | late | done, h"
    rows = [f"| {head} | preemptions | call, ms |", "|---" * 10 + "|"]
    for what, nodes, policy, values in grouped(findings):
        cells = [
            f"{values[name]:{form}}"
            for name, form in (
                ("total_eur", ".2f"),
                ("energy_eur", ".2f"),
                ("tardiness_eur", ".2f"),
                ("jobs_late", ".1f"),
                ("makespan_h", ".1f"),
                ("preemptions", ".0f"),
            )
        ]
        cells.append(f"{values['call_s'] * 1e3:.1f}")
        rows.append(f"| {what} | {nodes} | {policy} | {' | '.join(cells)} |")
    return rows


def grouped(findings: Findings) -> list[tuple[str, int, str, Values]]:
    """Return case, nodes, policy, and the means over the seeds, of all complete groups."""
    rows: list[tuple[str, int, str, Values]] = []
    for group in findings.plan.groups(findings.family):
        first = group[0]
        try:
            means = {
                name: mean_interval(findings.samples.sample(group, name)).mean for name in MEASURES
            }
        except MissingError:
            continue
        what = {
            "scenarios": f"scenario {first.scenario}",
            "prices": first.price,
            "caps": f"{first.budget_share:.0%} of the power",
        }[findings.family]
        rows.append((what, first.nodes, first.policy, means))
    return rows
