"""Classes of equal jobs: a single row of options with a count.

The jobs of an array have equal requests and values. As separate rows they defeat a search, which
finds each plan again in every order of the jobs. Here, rows with equal amounts, values, capacity
rows and must-run flags become one row with a count. Prices, bounds and the search over the core
then handle a few rows, however many jobs there are.

A plan of counted rows is a `Tally`: the number of jobs of a row that take an option. The order of
the jobs determines which jobs these are. Earlier jobs get options of higher value; of options of
equal value, the first. Jobs without an option come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.problem import AllocationProblem, Ints32, no_choice
from wattfold.coordinator.solvers.allocator.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

SINGLES = 8
"""Jobs at each option of a class that stay single for the repair of a plan."""
ROUNDING = 1e-9
"""Relative rounding error within which a share of a count is a whole number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """``number`` jobs of a row take ``option`` of its table, or none (-1). Entries may repeat."""

    row: Ints64
    option: Ints64
    number: Ints64

    @classmethod
    def nothing(cls) -> Tally:
        """Return an empty tally."""
        none = np.zeros(0, dtype=np.int64)
        return cls(row=none, option=none, number=none)

    @classmethod
    def rounded_down(
        cls, table: Table, shares: Sequence[float], responses: Sequence[Ints64]
    ) -> Tally:
        """Return the tally of a mix of responses, rounded down for each class and option."""
        rows = np.arange(table.jobs)
        keys = np.concatenate([rows * (table.owner.size + 1) + own + 1 for own in responses])
        weights = np.concatenate([share * table.count for share in shares])
        both, at = np.unique(keys, return_inverse=True)
        number = np.floor(np.bincount(at, weights=weights) + ROUNDING).astype(np.int64)
        row, option = np.divmod(both, table.owner.size + 1)
        return cls(row=row, option=option - 1, number=number).without_zeros()

    def without_zeros(self) -> Tally:
        """Return only the entries with a job."""
        some = self.number > 0
        return Tally(row=self.row[some], option=self.option[some], number=self.number[some])

    def moved(self, table: Table, part: Table) -> Tally:
        """Return the tally in the options of a part of the table, without other entries."""
        option = np.where(self.option < 0, -1, table.option[self.option])
        at = np.minimum(np.searchsorted(part.option, option), part.option.size - 1)
        there = (option < 0) | (part.option[at] == option)
        return Tally(
            row=self.row[there],
            option=np.where(option < 0, -1, at)[there],
            number=self.number[there],
        )

    def widened(self, part: Table, table: Table) -> Tally:
        """Return the tally in the options of the table that ``part`` belongs to."""
        option = np.where(self.option < 0, -1, part.option[self.option])
        option = np.where(option < 0, -1, np.searchsorted(table.option, option))
        return Tally(row=self.row, option=option, number=self.number)

    def used(self, table: Table) -> Floats:
        """Return the exact use of every resource."""
        taken = np.flatnonzero(self.option >= 0)
        picks, number = self.option[taken], self.number[taken]
        total = np.zeros(table.resources + 1)
        for cost, where in zip(table.cost, table.where, strict=True):
            amount = cost[picks] * number
            total += np.bincount(where[self.row[taken]], weights=amount, minlength=total.size)
        return total[:-1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouped:
    """A table of classes, and the jobs in them."""

    table: Table
    members: Ints64
    """Rows of the full table, sorted by class and then ascending."""
    begins: Ints64
    """First entry of ``members`` of each class, and the end."""
    full: Table

    def choice(self, problem: AllocationProblem, table: Table, tally: Tally) -> Ints32:
        """Return the option of every job of the problem; ``table`` is this table or a part."""
        taken = tally.option >= 0
        value = np.where(taken, table.value[tally.option], -np.inf)
        order = np.lexsort((tally.option, -value, tally.row))
        # Options of a row have the same positions in all rows of its class.
        first = self.table.firsts[tally.row]
        place = np.searchsorted(self.table.option, table.option[tally.option]) - first
        place = np.repeat(np.where(taken, place, -1)[order], tally.number[order])
        whole = no_choice(problem)
        runs = place >= 0
        rows = self.members[runs]
        whole[self.full.job[rows]] = self.full.option[self.full.firsts[rows] + place[runs]]
        return whole

    def ordered(self, problem: AllocationProblem, choice: Ints32) -> Ints32:
        """Reorder a plan of single jobs: of equal jobs, the earlier gets the better option."""
        chosen = choice[self.full.job[self.members]].astype(np.int64)
        row = np.repeat(np.arange(self.table.jobs), np.diff(self.begins))
        place = np.searchsorted(self.full.option, chosen) - self.full.firsts[self.members]
        option = np.where(chosen < 0, -1, self.table.firsts[row] + place)
        tally = Tally(row=row, option=option, number=np.ones(row.size, dtype=np.int64))
        return self.choice(problem, self.table, tally)


def group(full: Table) -> Grouped:
    """Return the table with equal rows counted."""
    firsts, members = _classes(full, (full.top, full.forced), (full.value, *full.cost))
    if firsts.size == full.jobs:
        own = np.arange(full.jobs)
        return Grouped(table=full, members=own, begins=np.arange(full.jobs + 1), full=full)
    begins = np.append(firsts, members.size)
    heads = np.sort(members[firsts])
    order = np.argsort(members[firsts], kind="stable")
    sizes = np.diff(begins)[order]
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    members = members[np.argsort(np.repeat(place, np.diff(begins)), kind="stable")]
    return Grouped(
        table=full.rows(heads, sizes),
        members=members,
        begins=np.append(0, np.cumsum(sizes)),
        full=full,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeparatedJobs:
    """Single jobs taken out of their classes, with the limits that the other jobs leave."""

    table: Table
    row: Ints64
    """Row of each single job in the table of classes."""
    settled: Tally
    """The decided jobs."""

    def joined(self, table: Table, choice: Ints64) -> Tally:
        """Return the whole plan, in the options of the table of classes."""
        place = choice - self.table.firsts
        own = np.where(choice < 0, -1, table.firsts[self.row] + place)
        return Tally(
            row=np.append(self.settled.row, self.row),
            option=np.append(self.settled.option, own),
            number=np.append(self.settled.number, np.ones(self.row.size, dtype=np.int64)),
        )


def loosened(table: Table, mix: Tally) -> SeparatedJobs:
    """Separate the jobs that a mix does not settle, and ``SINGLES`` jobs of each of its entries.

    A method for single jobs then has to move only a few, however many are equal.
    """
    settled = Tally(
        row=mix.row, option=mix.option, number=np.maximum(mix.number - SINGLES, 0)
    ).without_zeros()
    taken = np.bincount(settled.row, weights=settled.number, minlength=table.jobs)
    row = np.repeat(np.arange(table.jobs), (table.count - taken).astype(np.int64))
    if row.size == table.jobs and not settled.row.size:
        return SeparatedJobs(table=table, row=row, settled=settled)
    singles = table.rows(row, np.ones(row.size))
    limit = table.limit - settled.used(table)
    return SeparatedJobs(table=replace(singles, limit=limit), row=row, settled=settled)


def groups_of(
    table: Table, keys: Sequence[NDArray[np.generic]], columns: Sequence[Floats]
) -> tuple[list[Ints64], Ints64]:
    """Group rows that are equal in row keys, used resources and columns of the options.

    Returns the rows of each group in ascending order, groups sorted by their first row, and the
    group of each row.
    """
    firsts, order = _classes(table, keys, columns)
    parts = np.split(order, firsts[1:]) if order.size else []
    parts.sort(key=lambda part: int(part[0]))
    label = np.empty(table.jobs, dtype=np.int64)
    for at, part in enumerate(parts):
        label[part] = at
    return parts, label


def _classes(
    table: Table, keys: Sequence[NDArray[np.generic]], columns: Sequence[Floats]
) -> tuple[Ints64, Ints64]:
    """Return the start of each class in the second array: the rows by class, then ascending."""
    lengths = np.diff(np.append(table.firsts, table.owner.size))
    # Compare the most distinctive keys first: if all rows differ in them, no rows are equal.
    label = _labels([*keys, lengths, *table.where[2:]])
    unlike = table.jobs == 0 or int(label.max()) + 1 == table.jobs
    if not unlike:
        ends = table.firsts + lengths - 1
        # Most remaining different rows differ in their first or last option.
        parts = [column[place] for column in columns for place in (table.firsts, ends)]
        label = _labels([_mixed(np.stack(parts, axis=1)), label])
        label = _refined(table, label, lengths, columns)
    order = np.argsort(label, kind="stable")
    firsts = np.flatnonzero(np.diff(label[order], prepend=-1))
    return firsts, order


def _labels(keys: Sequence[NDArray[np.generic]]) -> Ints64:
    """Return equal numbers for rows with equal keys."""
    size = keys[0].size
    if not size:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort([key.astype(np.float64) for key in keys])
    changed = np.zeros(size, dtype=np.bool_)
    for key in keys:
        ordered = key[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    label = np.empty(size, dtype=np.int64)
    label[order] = np.cumsum(changed)
    return label


def _mixed(content: Floats) -> Floats:
    """Return a number per row, the same for equal rows: a sum with irrational factors."""
    mixed: Floats = (content * np.sqrt(np.arange(2.0, content.shape[1] + 2))).sum(axis=1)
    return mixed


def _refined(table: Table, label: Ints64, lengths: Ints64, columns: Sequence[Floats]) -> Ints64:
    """Return labels that distinguish all rows with different columns."""
    shared = np.flatnonzero(np.bincount(label)[label] > 1)
    label = label.copy()
    fresh = int(label.max()) + 1
    for length in np.unique(lengths[shared]).tolist():
        rows = shared[lengths[shared] == length]
        where = table.firsts[rows][:, None] + np.arange(length)
        content = np.concatenate([column[where] for column in columns], axis=1)
        # Rows are sorted by a mixture, and are equal only if all of their content is equal. If two
        # different rows have the same mixture, equal rows may get different labels, which only
        # costs a row.
        order = np.lexsort((_mixed(content), label[rows]))
        ordered, group = content[order], label[rows][order]
        changed = np.ones(rows.size, dtype=np.bool_)
        changed[1:] = np.any(ordered[1:] != ordered[:-1], axis=1) | (group[1:] != group[:-1])
        label[rows[order]] = fresh + np.cumsum(changed)
        fresh += rows.size + 1
    return label
