"""Budgets over time from a file, divided into past and future changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class ScheduledStep(NamedTuple):
    """A budget from a time (Unix seconds) on. ``note`` says how its local time was understood."""

    at_s: float
    budget_uw: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The budgets of a schedule as seen from now.

    ``now_uw`` is the budget of the schedule at this moment; 0 = it begins later. ``coming`` are its
    later changes, in order of time. ``passed`` is the number of changes that are over.
    """

    now_uw: int
    coming: tuple[ScheduledStep, ...]
    passed: int


def course(steps: Sequence[ScheduledStep], now_s: float) -> Course:
    """Merge equal neighbours, and separate past changes from future changes."""
    changes: list[ScheduledStep] = []
    for step in sorted(steps, key=lambda step: step.at_s):
        if not changes or step.budget_uw != changes[-1].budget_uw:
            changes.append(step)
    passed = [step for step in changes if step.at_s <= now_s]
    return Course(
        now_uw=passed[-1].budget_uw if passed else 0,
        coming=tuple(changes[len(passed) :]),
        passed=len(passed),
    )
