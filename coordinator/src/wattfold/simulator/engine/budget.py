"""Power budget of a simulation over time.

A step changes the budget at a time of the log. A lower budget must be met ``deadline_ns`` later: a
pool reacts at once, simulated agents need their averaging windows. Policies know of a step
``notice_ns`` in advance.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from wattfold.contract.units import ns_from_s, uw_from_w


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStep:
    """Budget ``budget_uw`` from ``at_ns`` on, counted from the first submission."""

    at_ns: int
    budget_uw: int
    deadline_ns: int = 0
    notice_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSchedule:
    """Budget steps in order of time; the first is at zero."""

    steps: tuple[BudgetStep, ...]

    def __post_init__(self) -> None:
        times = [step.at_ns for step in self.steps]
        if not times or times[0] != 0 or any(b <= a for a, b in pairwise(times)):
            raise ValueError("the steps of a budget must begin at 0 and ascend in time")
        if any(
            step.budget_uw <= 0 or step.deadline_ns < 0 or step.notice_ns < 0 for step in self.steps
        ):
            raise ValueError(
                "a budget must be above zero; its deadline and its notice must not be negative"
            )

    @classmethod
    def constant(cls, budget_uw: int) -> BudgetSchedule:
        """Return a budget that never changes."""
        return cls(steps=(BudgetStep(at_ns=0, budget_uw=budget_uw),))

    @property
    def is_constant(self) -> bool:
        """Whether the budget never changes."""
        return len(self.steps) == 1

    def ahead(self, at_ns: int) -> tuple[BudgetStep, ...]:
        """Return the future steps that are announced at a time."""
        return tuple(
            step for step in self.steps if step.at_ns - step.notice_ns <= at_ns < step.at_ns
        )

    @property
    def least_uw(self) -> int:
        """The lowest budget of all steps."""
        return min(step.budget_uw for step in self.steps)


def read_budget(path: Path) -> BudgetSchedule:
    """Read a CSV file with ``time_s``, ``budget_w`` and optionally ``deadline_s`` and ``notice_s``.

    Raises:
        ValueError: the file is invalid; the message has its name and the line.
    """
    steps: list[BudgetStep] = []
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream)
            if not {"time_s", "budget_w"} <= set(rows.fieldnames or ()):
                raise ValueError(
                    f"{path}: expected the columns time_s,budget_w[,deadline_s][,notice_s]"
                )
            for row in rows:
                steps.append(_step(path, rows.line_num, row))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    except csv.Error as error:
        raise ValueError(f"{path}: not CSV: {error}") from error
    try:
        return BudgetSchedule(steps=tuple(steps))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _step(path: Path, line: int, row: dict[str, str]) -> BudgetStep:
    try:
        return BudgetStep(
            at_ns=ns_from_s(float(row["time_s"])),
            budget_uw=uw_from_w(float(row["budget_w"])),
            deadline_ns=ns_from_s(float(row.get("deadline_s") or 0)),
            notice_ns=ns_from_s(float(row.get("notice_s") or 0)),
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {line}: not a time and a power: {error}") from error
