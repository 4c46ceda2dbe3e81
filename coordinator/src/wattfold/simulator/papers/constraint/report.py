"""Report of the findings about the CP scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.constraint.case import short
from wattfold.simulator.papers.constraint.evaluation import Evaluation, Findings
from wattfold.simulator.papers.constraint.settings import (
    COLUMNS,
    MEASURES,
    PUBLISHED,
)
from wattfold.simulator.papers.report import EvaluationReport, Section
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.papers.stand_in import StandIn
from wattfold.simulator.sweep.case import Values

PAPER = "Bridi, Lombardi, Bartolini, Benini, Milano: A CP Scheduler for High-Performance Computers"
QUICK_NOTE = "quick: few instances; not the evaluation"

Draw = Callable[[Findings, Path], list[Path]]
"""Function that draws plots of findings into a folder."""


def report_of(evaluation: Evaluation, known: Sequence[StandIn], draw: Draw) -> EvaluationReport:
    """Return the whole report."""
    plan = evaluation.plan
    return EvaluationReport(
        paper=PAPER,
        title="The evaluation of the CP scheduler, run again",
        sections=[_section(one, draw) for one in evaluation.findings],
        values="measures",
        measures=MEASURES,
        settings=plan.settings.document(),
        stand_ins=known,
        totals=evaluation.totals,
        quick=QUICK_NOTE if plan.quick else "",
        remarks=["Published (Table 1):", "\n".join(published_rows())],
        facts={"published": [one._asdict() for one in PUBLISHED]},
    )


def _section(findings: Findings, draw: Draw) -> Section:
    values = found(findings)
    return Section(
        name=findings.family,
        title=findings.title,
        judgements=findings.judgements,
        table=[
            ["instance", "policy", *MEASURES],
            *(
                [short(instance), policy, *(f"{one[name]:.9g}" for name in MEASURES)]
                for instance, policy, one in values
            ),
        ],
        draw=partial(draw, findings),
        how="\n".join(instance_rows(findings)),
        facts={
            "instances": [
                {"instance": short(instance), "policy": policy, **one}
                for instance, policy, one in values
            ]
        },
    )


def found(findings: Findings) -> list[tuple[str, str, Values]]:
    """Return instance, policy and values of every case with a result."""
    rows = []
    for case in findings.plan.cases(findings.family):
        try:
            rows.append((case.instance, case.policy, findings.samples.values(case)))
        except MissingError:
            continue
    return rows


def published_rows() -> list[str]:
    """Return the paper's Table 1 in Markdown."""
    rows = ["| | policy | WQT | NL | TR, s | AO, s |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {one.test} | {one.policy} | {one.wqt:g} | {one.nl} | {one.tr_s:.0f} | {one.ao_s:g} |"
        for one in PUBLISHED
    ]
    return rows


def instance_rows(findings: Findings) -> list[str]:
    """Return a Markdown line per instance with a column per policy: WQT / NL / TR, and AO."""
    values = {(instance, policy): one for instance, policy, one in found(findings)}
    policies = [name for name in COLUMNS if any(policy == name for _, policy in values)]
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
