"""Clusters: jobs with equal amounts but different values, as one row of mean values.

Examples are the running and waiting jobs of an array, or an array of jobs with different waiting
times. The resource use of a plan depends only on the number of jobs at each option. The search
finds such numbers, and the options are assigned to jobs afterwards. By the exchange argument the
more valuable jobs take the options of higher value: if the values of two jobs are in proportion,
the swapped plan is worth no more.

Mean values prove nothing: the value of a plan is computed again from its jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.classes import Tally, groups_of
from wattfold.coordinator.solvers.allocator.resources import Table

Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clusters:
    """A table of clusters, and the rows in them."""

    table: Table
    waiting: Ints64
    """Number of jobs in each cluster that need not run."""
    members: tuple[Ints64, ...]
    """Rows of each cluster."""
    cluster: Ints64
    """Cluster of each row."""
    rows: Table

    def counted(self, plan: Tally) -> Tally:
        """Return a plan of rows as numbers of the clusters. Entries may repeat."""
        place = plan.option - self.rows.firsts[plan.row]
        row = self.cluster[plan.row]
        option = np.where(plan.option < 0, -1, self.table.firsts[row] + place)
        return Tally(row=row, option=option, number=plan.number)

    def dealt(self, plan: Tally, before: Tally) -> Tally:
        """Assign a plan of clusters to rows, unchanged for clusters with unchanged numbers."""
        old, new = self._numbers(self.counted(before)), self._numbers(plan)
        changed = np.unique(self._row_of_place(np.flatnonzero(old != new)))
        kept = ~np.isin(self.cluster[before.row], changed)
        none = np.zeros((0, 3), dtype=np.int64)
        entries = [none, *(self._dealt(at, new) for at in changed.tolist())]
        row, option, number = np.concatenate(entries).T
        return Tally(
            row=np.append(before.row[kept], row),
            option=np.append(before.option[kept], option),
            number=np.append(before.number[kept], number),
        )

    def _numbers(self, plan: Tally) -> Ints64:
        options = self.table.owner.size
        place = np.where(plan.option >= 0, plan.option, options + plan.row)
        size = options + self.table.jobs
        return np.bincount(place, weights=plan.number, minlength=size).astype(np.int64)

    def _row_of_place(self, place: Ints64) -> Ints64:
        return np.append(self.table.owner, np.arange(self.table.jobs))[place]

    def _dealt(self, at: int, numbers: Ints64) -> Ints64:
        """Return rows, options and numbers of a cluster.

        Jobs that must run take options first, then the more valuable jobs; these get the better
        options.
        """
        rows, table = self.rows, self.table
        members = self.members[at]
        first = int(table.firsts[at])
        length = int(np.searchsorted(table.owner, at, side="right")) - first
        idle = int(numbers[table.owner.size + at])
        count = rows.count[members].astype(np.int64)
        last = np.lexsort((-rows.value[rows.firsts[members]], ~rows.forced[members]))[::-1]
        left_out = np.zeros(members.size, dtype=np.int64)
        before = np.cumsum(count[last]) - count[last]
        left_out[last] = np.clip(idle - before, 0, count[last])
        best = np.argsort(-rows.value[rows.firsts[members]], kind="stable")
        places = np.argsort(-table.value[first : first + length], kind="stable")
        one, place, number = _matched((count - left_out)[best], numbers[first + places])
        row = members[best][one]
        out = last[left_out[last] > 0]
        return np.concatenate(
            [
                np.stack([members[out], np.full(out.size, -1), left_out[out]], axis=1),
                np.stack([row, rows.firsts[row] + places[place], number], axis=1),
            ]
        )


def cluster(table: Table) -> Clusters:
    """Return the table with rows of the same amounts as one row."""
    own, label = groups_of(table, (np.add.reduceat(table.cost[1], table.firsts),), table.cost)
    members = tuple(np.sort(part) for part in own)
    heads = np.array([part[0] for part in members], dtype=np.int64)
    count = np.bincount(label, weights=table.count)
    merged = table.rows(heads, count)
    place = np.arange(table.owner.size) - table.firsts[table.owner]
    place += merged.firsts[label[table.owner]]
    worth = np.bincount(place, weights=table.value * table.count[table.owner])
    forced = np.bincount(label, weights=table.count * table.forced)
    return Clusters(
        table=replace(merged, value=worth / count[merged.owner], forced=forced == count),
        waiting=(count - forced).astype(np.int64),
        members=members,
        cluster=label,
        rows=table,
    )


def _matched(have: Ints64, want: Ints64) -> tuple[Ints64, Ints64, Ints64]:
    """Match two lists of numbers with equal sums in order: positions in both, and numbers."""
    had, wanted = np.cumsum(have), np.cumsum(want)
    ends = np.union1d(had, wanted)
    ends = ends[ends > 0]
    begins = np.append(0, ends)[:-1]
    return (
        np.searchsorted(had, begins, side="right"),
        np.searchsorted(wanted, begins, side="right"),
        ends - begins,
    )
