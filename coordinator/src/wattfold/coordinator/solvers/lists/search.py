"""Anytime search for a better order of a list by swaps, moves, and removal and reinsertion of jobs.

Each order is evaluated by its complete plan. A change is accepted if the plan is no worse than the
current plan, or than the plan of some evaluations ago (late acceptance; E. K. Burke, Y. Bykov: The
Late Acceptance Hill-Climbing Heuristic. EJOR 258(1), 2017), so that the search leaves local optima.
The result is the best plan found. The search is limited by evaluations and not by time: equal
arguments give equal plans on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wattfold.coordinator.solvers.lists.arrays import (
    FLEXIBLE,
    Arrays,
    Ints,
    List,
    Schedule,
    objective_of,
)

LATE = 8
"""A plan is compared with the plan of this many evaluations ago."""
OUT = 4
"""Number of jobs that are removed from the list together, and reinserted in turn."""
LEAST_GAIN = 1e-9
"""A smaller gain is rounding: the same waits, summed in another order."""
EARLY = 2.0
"""Exponent of drawn positions: earlier positions are more likely, as they decide about now."""


class Lister(Protocol):
    """A list scheduler."""

    def __init__(self, arrays: Arrays) -> None:
        """Prepare for one problem."""

    def schedule(self, order: List, choice: List, depth: int) -> Schedule:
        """Return the schedule, see `ReferenceLists`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """A list, its options and depth, and the resulting schedule."""

    maker: str
    order: Ints
    choice: Ints
    depth: int
    schedule: Schedule
    objective: float


def listed(
    lists: Lister, arrays: Arrays, maker: str, order: Ints, choice: Ints, depth: int
) -> Listed:
    """Schedule a list."""
    schedule = lists.schedule(order, choice, depth)
    return Listed(
        maker=maker,
        order=order,
        choice=choice,
        depth=depth,
        schedule=schedule,
        objective=objective_of(arrays, schedule.starts_ns),
    )


def searched(
    lists: Lister, arrays: Arrays, start: Listed, maker: str, *, evaluations: int, seed: int
) -> Listed:
    """Return the best of ``start`` and ``evaluations`` lists derived from it by small changes."""
    if len(start.order) < 2 and not _options(arrays).any():
        return start
    chance = np.random.default_rng(seed)
    best, present = start, start
    late = [start.objective] * LATE
    for evaluation in range(evaluations):
        order, choice = _changed(arrays, present, chance)
        found = listed(lists, arrays, maker, order, choice, start.depth)
        slot = evaluation % LATE
        if found.objective <= max(present.objective, late[slot]):
            present = found
        if found.objective < best.objective - LEAST_GAIN * abs(best.objective):
            best = found
        late[slot] = present.objective
    return best


def _changed(arrays: Arrays, present: Listed, chance: np.random.Generator) -> tuple[Ints, Ints]:
    """Return a neighbour: another order, or another option of a job."""
    order, choice = present.order.copy(), present.choice
    several = _options(arrays)
    if several.any() and (len(order) < 2 or chance.random() < 0.25):
        job = int(chance.choice(np.flatnonzero(several)))
        choice = choice.copy()
        choice[job] = chance.integers(FLEXIBLE, several[job] + 1)
        return order, choice
    move = chance.integers(3)
    if move == 0:
        first, second = _place(order, chance), _place(order, chance)
        order[[first, second]] = order[[second, first]]
        return order, choice
    out = [_place(order, chance) for _ in range(1 if move == 1 else OUT)]
    taken = order[np.unique(out)]
    order = np.delete(order, out)
    for job in chance.permutation(taken):
        order = np.insert(order, _place(order, chance) if len(order) else 0, job)
    return order, choice


def _place(order: Ints, chance: np.random.Generator) -> int:
    return int(len(order) * chance.random() ** EARLY)


def _options(arrays: Arrays) -> Ints:
    """Return the number of options of each job in addition to the first."""
    return np.diff(arrays.option_from) - 1
