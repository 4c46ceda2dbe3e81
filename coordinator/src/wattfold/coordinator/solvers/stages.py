"""What the search over a core decides, one thing at a time.

A *stage* of a single job is which of its options it takes. Of a *family* of equal jobs all start
with the option that loses least, their base, and each other choice is a stage: how many leave the
base for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Core:
    """Per job what may still be chosen: its options of the table and, as -1, none."""

    fixed: Ints64
    """Per job the one option left, or -1; meaningless where the job is open."""
    open_jobs: Ints64
    choices: tuple[Ints64, ...]
    """Per open job."""
    losses: tuple[Floats, ...]
    hollow: bool
    """Some job has nothing left: no plan is within the budget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Jobs that differ in nothing but whether they may be left out: decided by one count.

    Running jobs and waiting ones of one array, for example. None is their last choice, if any of
    them has it.
    """

    jobs: tuple[int, ...]
    """Rows of the table, those that must run first."""
    choices: tuple[Ints64, ...]
    """Per row the options of the table, or -1, in one order."""
    counts: tuple[int, ...]
    base: int
    """Place of the choice that loses least: the one all start with."""

    @property
    def count(self) -> int:
        """Of jobs."""
        return sum(self.counts)

    def shared_out(self, numbers: Sequence[int]) -> list[tuple[int, int, int]]:
        """Row, option and number of jobs, where so many of all take each choice.

        Choices are dealt out in order and the last, none, to the last rows, which may take it.
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
    """One decision. Of a single job: which choice. Of a family: how many leave its base for one."""

    job: int
    """Its row, or the first one of the family."""
    choices: Ints64
    """Options of the table or -1; of a family the place of one choice."""
    amount: Floats
    """Resources by choices; of a class what the choice takes more than the base."""
    loss: Floats
    value: Floats
    at_most: int
    """0: a single job. Else how many of a family can take it, the budget alone considered."""
    count: int


def families_of(table: Table, core: Core, members: list[int]) -> list[tuple[Family, Floats]]:
    """Rows with equal choices but for none, as one family where none is not what loses least."""
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
    """How much of the limits a class can move."""
    return max(
        (one.at_most * float((np.abs(one.amount[:, 0]) * scale).sum()) for one in own), default=0.0
    )
