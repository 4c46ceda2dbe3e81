"""Merge of the jobs of a node into one job, so that the cores of the node are no longer a limit.

A price on a node's cores leaves a gap, because a few jobs seldom fill a node exactly. Here the jobs
of a row become one job. Its options are the combinations that respect the row, without dominated
combinations: those that take as much units and power as another and are worth no more. The problem
is equivalent: except for dominated plans, it has the same plans, optimum and bounds.

A row is merged only if its coefficients are the options' units (the cores of a node), its jobs are
in no other row, and there are few combinations. Other rows stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.problem import (
    AMOUNT_MAX,
    AllocationProblem,
    CapacityRow,
    Ints32,
    no_choice,
)

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMBINATIONS_MAX = 30_000
WORK_MAX = 1_000_000
"""Maximum number of combinations times different numbers of units, of a row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedNode:
    """The jobs of a row and their combinations: an option of each job, or -1, per combination."""

    jobs: Ints64
    options: Ints64
    units: Ints64
    power_uw: Ints64
    value: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merged:
    """An equivalent problem, and the way back from its plans."""

    problem: AllocationProblem
    original: AllocationProblem
    kept: Ints64
    """Unchanged options; they come first in the merged problem."""
    jobs: Ints64
    """Unchanged jobs; they come first in the merged problem."""
    nodes: tuple[MergedNode, ...]
    """The merged jobs."""

    def restore(self, choice: Ints32) -> Ints32:
        """Return the plan of the original problem for a plan of the merged problem."""
        whole = no_choice(self.original)
        own = choice[: self.jobs.size]
        whole[self.jobs[own >= 0]] = self.kept[own[own >= 0]]
        first = self.kept.size
        for node, picked in zip(self.nodes, choice[self.jobs.size :].tolist(), strict=True):
            if picked >= 0:
                whole[node.jobs] = node.options[picked - first]
            first += node.value.size
        return whole


def merge(problem: AllocationProblem) -> Merged | None:
    """Return the problem with the jobs of nodes merged; None if no row can be merged."""
    members = [
        np.unique(problem.job_of[row.option_indices]).astype(np.int64) for row in problem.rows
    ]
    if not members or min(problem.units_max, problem.power_uw_max) < 0:
        return None
    rows_of_job = np.bincount(np.concatenate(members), minlength=problem.job_count)
    starts = problem.starts()
    nodes: list[MergedNode] = []
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


def _counts_units(
    problem: AllocationProblem, row: CapacityRow, jobs: Ints64, starts: Ints64
) -> bool:
    """Whether the row limits the units of these jobs, with all their options."""
    amounts = np.zeros(problem.option_count, dtype=np.int64)
    np.add.at(amounts, row.option_indices, row.coefficients)
    own = np.concatenate([np.arange(starts[job], starts[job + 1]) for job in jobs.tolist()])
    return bool(np.array_equal(amounts[own], problem.units[own]))


def _combine(
    problem: AllocationProblem, limit: int, jobs: Ints64, starts: Ints64
) -> MergedNode | None:
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
    # A combination without any job is no option: the merged job then takes none.
    some = options.max(axis=1, initial=-1) >= 0
    return MergedNode(
        jobs=jobs,
        options=options[some],
        units=units[some],
        power_uw=power_uw[some],
        value=value[some],
    )


def _efficient(units: Ints64, power_uw: Ints64, value: Floats) -> Ints64:
    """Return non-dominated combinations (units, power, value), ascending; the first of equals."""
    order = np.lexsort((-value, units, power_uw))
    by_power_units, by_power_value = units[order], value[order]
    keep = np.zeros(order.size, dtype=np.bool_)
    for amount in np.unique(units).tolist():
        best = np.maximum.accumulate(np.where(by_power_units <= amount, by_power_value, -np.inf))
        before = np.append(-np.inf, best[:-1])
        keep |= (by_power_units == amount) & (by_power_value > before)
    return np.sort(order[keep])


def _assembled(
    problem: AllocationProblem, nodes: list[MergedNode], left: list[CapacityRow]
) -> Merged:
    gone = np.zeros(problem.job_count, dtype=np.bool_)
    gone[np.concatenate([node.jobs for node in nodes])] = True
    jobs = np.flatnonzero(~gone)
    kept = np.flatnonzero(~gone[problem.job_of])
    position = np.full(problem.option_count, -1, dtype=np.int64)
    position[kept] = np.arange(kept.size)
    number = np.cumsum(~gone) - 1
    counts = [node.value.size for node in nodes]
    sizes = np.concatenate([problem.units[kept], *(node.units for node in nodes)])
    merged = AllocationProblem(
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
