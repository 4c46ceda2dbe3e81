"""Tables and the document of `wattfold advise`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.policies import registry
from wattfold.simulator.results.advice import GOALS, AdvisedOption, advice_table, sentences, verdict
from wattfold.simulator.results.budget_sweep import refusals
from wattfold.simulator.results.comparison import mean_run

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.session import Session
    from wattfold.simulator.results.advice import Advice
    from wattfold.simulator.results.budget_sweep import SweepPoint
    from wattfold.simulator.results.intervals import Interval
    from wattfold.simulator.runs.past import Segments


def show(
    session: Session,
    advice: Advice,
    points: Sequence[SweepPoint],
    segments: Segments,
    notes: Sequence[str],
) -> None:
    """Print the table, the assumptions, and the advice in words last."""
    days = segments.length_s / 86_400
    length = f"{days:g} day{'' if days == 1 else 's'}" if days >= 1 else f"{segments.length_s:g} s"
    click.echo(f"{segments.jobs:,} past jobs in {len(segments.found)} segments of {length}\n")
    session.print(advice_table(advice))
    for group in (refusals(points), notes, words(advice)):
        if group:
            click.echo()
        for sentence in group:
            click.echo(sentence)


def words(advice: Advice) -> list[str]:
    """Return the advice in words, with the name of the policy in the configuration."""
    name = configured(advice.policy)
    named = f"The configuration of the coordinator names this policy {name}."
    return [*sentences(advice), *([named] if name != advice.policy else [])]


def configured(policy: str) -> str:
    """Return the name of a policy of a simulation in the configuration."""
    entry = registry.find(policy)
    return policy if entry is None else entry.variant.name


def document(
    advice: Advice,
    points: Sequence[SweepPoint],
    segments: Segments,
    notes: Sequence[str],
    plot: Path | None,
) -> dict[str, Any]:
    """Return the document of schema `advise-1.json`. Unknown numbers are None."""
    return numbered(
        "advise",
        {
            "jobs": segments.jobs,
            "segments": [{"start_s": one.start_s, "jobs": len(one.jobs)} for one in segments.found],
            "segment_s": segments.length_s,
            "goal": advice.goal.key,
            "current": {"policy": advice.current.policy, "budget_w": advice.current.budget_w},
            "options": [_option(one, advice) for one in advice.options],
            "refused": [
                {"policy": name, "budget_w": point.budget_w, "reason": reason}
                for point in points
                for name, reason in point.refused.items()
            ],
            "advice": {
                "policy": advice.policy,
                "configured_as": configured(advice.policy),
                "changes": advice.changes,
                "best_other": advice.best,
                "relative": _known(advice.by.mean),
                "interval": _ends(advice.by),
                "confidence": advice.confidence,
                "sentences": words(advice),
            },
            "assumptions": list(notes),
            "figure": str(plot) if plot else None,
        },
    )


def _option(one: AdvisedOption, advice: Advice) -> dict[str, Any]:
    mean = mean_run(one.runs)
    return {
        "policy": one.policy,
        "budget_w": one.budget_w,
        **{key: _known(float(getattr(mean, key))) for key in GOALS.values()},
        "relative": _known(one.by.mean),
        "relative_95": _ends(one.by),
        "verdict": "current" if one is advice.current else verdict(one.by),
    }


def _ends(by: Interval) -> list[float | None]:
    return [_known(by.low), _known(by.high)]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
