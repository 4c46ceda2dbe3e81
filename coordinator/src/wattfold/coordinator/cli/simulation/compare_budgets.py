"""Budgets of `wattfold compare --budgets`, and the display of their results."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.parsing import Parsed, parse_power_uw
from wattfold.coordinator.cli.workloads.workload_options import warn

if TYPE_CHECKING:
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import FinishedSimulation
    from wattfold.simulator.results.budget_sweep import SweepPoint
    from wattfold.simulator.runs.case import SimulationCase

COUNT = 5
"""Number of budgets of a range without a number."""
COUNT_MAX = 100
_RANGE = re.compile(r"(.+?)\.\.([^:/]+)(?:([:/])(.+))?\Z")


def parse_budgets(text: str) -> tuple[int, ...]:
    """Parse `8kW,9kW`, `8kW..12kW`, `8kW..12kW:9` or `8kW..12kW/500W`; return ascending microwatts.

    Raises ValueError.
    """
    match = _RANGE.match(text.strip())
    if match is None:
        return tuple(sorted({parse_power_uw(part) for part in text.split(",")}))
    low_uw, high_uw = parse_power_uw(match[1]), parse_power_uw(match[2])
    if low_uw >= high_uw:
        raise ValueError(f"not an ascending range of budgets: {text!r}")
    if match[3] == "/":
        step_uw = parse_power_uw(match[4])
        count = (high_uw - low_uw) // step_uw + 1
        found = [low_uw + place * step_uw for place in range(min(count, COUNT_MAX + 1))]
    else:
        count = int(match[4]) if match[4] and match[4].isdecimal() else 0 if match[4] else COUNT
        found = [
            low_uw + (high_uw - low_uw) * place // max(count - 1, 1)
            for place in range(min(count, COUNT_MAX + 1))
        ]
    if not 2 <= len(found) <= COUNT_MAX:
        raise ValueError(
            f"{text!r} is {count} budgets; a range has 2 to {COUNT_MAX}, for example 8kW..12kW:9 "
            "or 8kW..12kW/500W"
        )
    return tuple(found)


BUDGETS = Parsed("budgets", parse_budgets)


def under_budgets(
    cases: Sequence[SimulationCase], budgets_uw: Sequence[int]
) -> list[SimulationCase]:
    """Return every case under every budget, in the order of the budgets, with the same jobs.

    If sizes are cut to the nodes that a budget feeds, the lowest budget that feeds a node sets the
    cut for all budgets.
    """
    from wattfold.simulator.engine.budget import BudgetSchedule

    made = []
    for case in cases:
        under = [replace(case, budget=BudgetSchedule.constant(one)) for one in budgets_uw]
        if case.source.cut_sizes:
            fed = [one.nodes_at_full_power for one in under]
            most = min((nodes for nodes in fed if nodes > 0), default=0)
            under = [replace(one, source=replace(one.source, size_most=most)) for one in under]
        made.append(under)
    return [one for same_budget in zip(*made, strict=True) for one in same_budget]


def sweep_points(
    session: Session, cases: Sequence[SimulationCase], workers: int | None
) -> tuple[list[SweepPoint], list[FinishedSimulation]]:
    """Run all cases; return the results by budget and policy, and the runs themselves."""
    from wattfold.coordinator.cli.simulation.runs.simulate_elsewhere import each_elsewhere
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import (
        FinishedSimulation,
        How,
        Stopped,
    )
    from wattfold.simulator.results.budget_sweep import SweepPoint
    from wattfold.simulator.results.comparison import Compared, compared

    how = How(resume=False, formats=(), checkpoint_every_s=math.inf)
    found = each_elsewhere(session, cases, how, workers)
    if isinstance(found, Stopped):
        warn("wattfold: stopped")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    runs: dict[int, dict[str, list[Compared]]] = {}
    refused: dict[int, dict[str, str]] = {}
    for case, run in zip(cases, found, strict=True):
        budget_uw = case.budget.least_uw
        if isinstance(run, FinishedSimulation):
            runs.setdefault(budget_uw, {}).setdefault(case.name, []).append(compared(run.record))
        else:
            refused.setdefault(budget_uw, {})[case.name] = run.reason
    finished = [run for run in found if isinstance(run, FinishedSimulation)]
    if not finished:
        raise BadRequestError(next(iter(refused[max(refused)].values())))
    points = []
    for budget_uw in dict.fromkeys(case.budget.least_uw for case in cases):
        without = refused.get(budget_uw, {})
        whole = {n: r for n, r in runs.get(budget_uw, {}).items() if n not in without}
        points.append(SweepPoint(budget_w=w_from_uw(budget_uw), runs=whole, refused=without))
    return points, finished


def show_sweep(session: Session, points: Sequence[SweepPoint], policies: Sequence[str]) -> None:
    """Show a table per metric, and the reasons for missing values."""
    from wattfold.simulator.results.budget_sweep import (
        measures_of,
        refusals,
        sweep_table,
    )

    for line in measures_of(points):
        session.print(sweep_table(points, policies, line))
        click.echo()
    for sentence in refusals(points):
        click.echo(sentence)


def save_sweep(
    plot: Path, points: Sequence[SweepPoint], policies: Sequence[str], **texts: Any
) -> None:
    """Draw the sweep. matplotlib loads slowly."""
    from wattfold.simulator.figures.budget_sweep import save_budget_sweep

    save_budget_sweep(plot, points, policies, **texts)
