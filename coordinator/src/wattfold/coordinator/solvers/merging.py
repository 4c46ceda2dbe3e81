"""Decides the jobs of a node together, so that the cores of the node are no longer a limit.

A price on a node's cores leaves a gap: a few jobs hardly ever fill a node exactly. Here the jobs
of a row become one job whose options are the combinations that keep the row, without those that
take as much of units and power as another and are worth no more. The problem is an equivalent one:
same plans but for dominated ones, same optimum, same bounds.

Only rows are merged whose coefficients are the options' units (the cores of a node) and whose jobs
are in no other row; and only while the combinations stay few. The others are left as rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.problem import (
    AMOUNT_MAX,
    CapacityRow,
    Ints32,
    Problem,
    no_choice,
)

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMBINATIONS_MAX = 30_000
WORK_MAX = 1_000_000
"""Combinations times different numbers of units, of one row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """The jobs of a row and their combinations: per combination an option of each job, or -1."""

    jobs: Ints64
    options: Ints64
    units: Ints64
    power_uw: Ints64
    value: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merged:
    """An equivalent problem, and the way back from its plans."""

    problem: Problem
    original: Problem
    kept: Ints64
    """Options taken over as they are; the first of the merged problem."""
    jobs: Ints64
    """Jobs taken over as they are; the first of the merged problem."""
    nodes: tuple[Node, ...]
    """The further jobs."""

    def restore(self, choice: Ints32) -> Ints32:
        """The plan of the original problem that a plan of the merged one stands for."""
        whole = no_choice(self.original)
        own = choice[: self.jobs.size]
        whole[self.jobs[own >= 0]] = self.kept[own[own >= 0]]
        first = self.kept.size
        for node, picked in zip(self.nodes, choice[self.jobs.size :].tolist(), strict=True):
            if picked >= 0:
                whole[node.jobs] = node.options[picked - first]
            first += node.value.size
        return whole


def merge(problem: Problem) -> Merged | None:
    """The problem with the jobs of nodes decided together; None where that applies to no row."""
    members = [
        np.unique(problem.job_of[row.option_indices]).astype(np.int64) for row in problem.rows
    ]
    if not members or min(problem.units_max, problem.power_uw_max) < 0:
        return None
    rows_of_job = np.bincount(np.concatenate(members), minlength=problem.job_count)
    starts = problem.starts()
    nodes: list[Node] = []
    left: list[CapacityRow] = []
    for row, jobs in zip(problem.rows, members, strict=True):
        node = None
        if (
            jobs.size
            and np.all(rows_of_job[jobs] == 1)
            and _counts_units(problem, row, jobs, starts)
        ):
            node = _combine(problem, row.limit, jobs, starts)
        if node is None:
            left.append(row)
        else:
            nodes.append(node)
    return _assembled(problem, nodes, left) if nodes else None


def _counts_units(problem: Problem, row: CapacityRow, jobs: Ints64, starts: Ints64) -> bool:
    """Whether the row limits the units of these jobs, all their options included."""
    amounts = np.zeros(problem.option_count, dtype=np.int64)
    np.add.at(amounts, row.option_indices, row.coefficients)
    own = np.concatenate([np.arange(starts[job], starts[job + 1]) for job in jobs.tolist()])
    return bool(np.array_equal(amounts[own], problem.units[own]))


def _combine(problem: Problem, limit: int, jobs: Ints64, starts: Ints64) -> Node | None:
    most = min(limit, problem.units_max)
    units, power_uw = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    value, options = np.zeros(1), np.zeros((1, 0), dtype=np.int64)
    for job in jobs.tolist():
        own = np.arange(starts[job], starts[job + 1])
        own = own[_efficient(problem.units[own], problem.power_uw[own], problem.value[own])]
        idle = 0 if problem.must_run[job] else 1
        own_units = np.append(problem.units[own], np.zeros(idle, dtype=np.int64))
        own_power = np.append(problem.power_uw[own], np.zeros(idle, dtype=np.int64))
        own_value = np.append(problem.value[own], np.zeros(idle))
        own = np.append(own, np.full(idle, -1))
        if units.size * own.size > COMBINATIONS_MAX:
            return None
        units = np.add.outer(units, own_units).ravel()
        power_uw = np.add.outer(power_uw, own_power).ravel()
        value = np.add.outer(value, own_value).ravel()
        pick = np.arange(units.size)
        if max(units.max(initial=0), power_uw.max(initial=0)) > AMOUNT_MAX // problem.job_count:
            return None
        fits = (units <= most) & (power_uw <= problem.power_uw_max)
        pick = pick[fits]
        if pick.size * np.unique(units[pick]).size > WORK_MAX:
            return None
        pick = pick[_efficient(units[pick], power_uw[pick], value[pick])]
        parent, chosen = np.divmod(pick, max(own.size, 1))
        units, power_uw, value = units[pick], power_uw[pick], value[pick]
        options = np.column_stack([options[parent], own[chosen]])
    # Taking none of the jobs is not an option but the lack of one.
    some = options.max(axis=1, initial=-1) >= 0
    return Node(
        jobs=jobs,
        options=options[some],
        units=units[some],
        power_uw=power_uw[some],
        value=value[some],
    )


def _efficient(units: Ints64, power_uw: Ints64, value: Floats) -> Ints64:
    """Those that no other beats or equals in units, power and value, ascending; of equals one."""
    order = np.lexsort((-value, units, power_uw))
    by_power_units, by_power_value = units[order], value[order]
    keep = np.zeros(order.size, dtype=np.bool_)
    for amount in np.unique(units).tolist():
        best = np.maximum.accumulate(np.where(by_power_units <= amount, by_power_value, -np.inf))
        before = np.append(-np.inf, best[:-1])
        keep |= (by_power_units == amount) & (by_power_value > before)
    return np.sort(order[keep])


def _assembled(problem: Problem, nodes: list[Node], left: list[CapacityRow]) -> Merged:
    gone = np.zeros(problem.job_count, dtype=np.bool_)
    gone[np.concatenate([node.jobs for node in nodes])] = True
    jobs = np.flatnonzero(~gone)
    kept = np.flatnonzero(~gone[problem.job_of])
    position = np.full(problem.option_count, -1, dtype=np.int64)
    position[kept] = np.arange(kept.size)
    number = np.cumsum(~gone) - 1
    counts = [node.value.size for node in nodes]
    sizes = np.concatenate([problem.units[kept], *(node.units for node in nodes)])
    merged = Problem(
        job_of=np.concatenate(
            [number[problem.job_of[kept]], np.repeat(jobs.size + np.arange(len(nodes)), counts)]
        ).astype(np.int32),
        units=sizes,
        power_uw=np.concatenate([problem.power_uw[kept], *(node.power_uw for node in nodes)]),
        value=np.concatenate([problem.value[kept], *(node.value for node in nodes)]),
        must_run=np.append(
            problem.must_run[jobs], [bool(problem.must_run[node.jobs].any()) for node in nodes]
        ).astype(np.bool_),
        units_max=problem.units_max,
        power_uw_max=problem.power_uw_max,
        rows=tuple(replace(row, option_indices=position[row.option_indices]) for row in left),
    )
    return Merged(problem=merged, original=problem, kept=kept, jobs=jobs, nodes=tuple(nodes))
