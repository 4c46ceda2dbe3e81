"""Stages: the single decisions of the search over a core.

The *stage* of a single job chooses one of its options. The jobs of a *family* of equal jobs all
start with the option of smallest loss, their base. Each other choice is a stage that decides how
many jobs leave the base for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Core:
    """The possible choices of each job: its options in the table, and -1 for none."""

    fixed: Ints64
    """The remaining option of each job, or -1; meaningless for open jobs."""
    open_jobs: Ints64
    choices: tuple[Ints64, ...]
    """Choices of each open job."""
    losses: tuple[Floats, ...]
    hollow: bool
    """Whether some job has no choice left, so that no plan is within the budget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Jobs that differ only in whether they may be left out, decided by a single count.

    An example are the running and the waiting jobs of an array. If any of them may be left out,
    none is their last choice.
    """

    jobs: tuple[int, ...]
    """Rows of the table; those that must run come first."""
    choices: tuple[Ints64, ...]
    """Options of the table for each row, or -1, all in the same order."""
    counts: tuple[int, ...]
    base: int
    """Index of the choice of smallest loss, with which all jobs start."""

    @property
    def count(self) -> int:
        """Number of jobs."""
        return sum(self.counts)

    def shared_out(self, numbers: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return row, option and number of jobs, given the number of jobs at each choice.

        Choices are assigned in order. The last choice, none, goes to the last rows, which may take
        it.
        """
        out = []
        left = list(self.counts)
        row = 0
        for place, number in enumerate(numbers):
            while number:
                row += left[row] == 0
                dealt = min(number, left[row])
                if dealt:
                    out.append((self.jobs[row], int(self.choices[row][place]), dealt))
                left[row] -= dealt
                number -= dealt
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A decision: the choice of a single job, or the number of jobs of a family at a choice."""

    job: int
    """Row of the job, or the first row of the family."""
    choices: Ints64
    """Options of the table, or -1; for a family the index of a choice."""
    amount: Floats
    """Use by resource and choice; for a class the additional use over the base."""
    loss: Floats
    value: Floats
    at_most: int
    """0: a single job. Otherwise how many jobs of a family can take it within the budget."""
    count: int


def families_of(table: Table, core: Core, members: list[int]) -> list[tuple[Family, Floats]]:
    """Group rows with equal choices except none, unless none has the smallest loss."""
    members = sorted(members, key=lambda at: bool(core.choices[at][-1] < 0))
    fullest = core.losses[members[-1]]
    idle = [float(core.losses[at][-1]) for at in members if core.choices[at][-1] < 0]
    base = int(np.argmin(fullest))
    one = len(idle) == len(members) or (core.choices[members[-1]][base] >= 0)
    one = one and (not idle or max(idle) == min(idle))
    if not one:
        return [pair for at in members for pair in families_of(table, core, [at])]
    jobs = core.open_jobs[members].tolist()
    family = Family(
        jobs=tuple(jobs),
        choices=tuple(core.choices[at] for at in members),
        counts=tuple(int(table.count[job]) for job in jobs),
        base=base,
    )
    return [(family, fullest)]


def stage_of(
    job: int,
    choices: Ints64,
    amount: Floats,
    loss: Floats,
    value: Floats,
    at_most: int,
    count: int,
) -> Stage:
    return Stage(
        job=job,
        choices=choices,
        amount=amount,
        loss=loss,
        value=value,
        at_most=at_most,
        count=count,
    )


def width_of(own: list[Stage], scale: Floats) -> float:
    """Return the share of the limits that a class can move."""
    return max(
        (one.at_most * float((np.abs(one.amount[:, 0]) * scale).sum()) for one in own), default=0.0
    )
