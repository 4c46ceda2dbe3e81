"""Consecutive numbers, best fit: the job's nodes in as few runs as possible.

A new job gets the shortest hole that holds it. Where none does, the longest holes, one after the
other, until the rest fits into one: the fewest pieces there can be. Growth goes into the holes
beside the job first, then like a new job's. Numbers are taken to be near where they are
consecutive; nothing is known of a network.
"""

from __future__ import annotations

from wattfold.coordinator.models.torus import NodeArray
from wattfold.coordinator.policies.node_selection.holes import HoleSelector, Run, nodes_of, runs_of
from wattfold.coordinator.policies.node_selection.selector import check_released, check_wanted


class CompactSelector(HoleSelector):
    """Holes filled best fit."""

    __slots__ = ()

    def take(self, count: int) -> NodeArray:
        """The fewest runs that hold so many. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        return nodes_of(self._take(count))

    def grow(self, held: NodeArray, count: int) -> NodeArray:
        """Nodes beside the job's runs as far as these are free. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        taken: list[Run] = []
        missing = count
        beside = self._beside(runs_of(held)) if count else {}
        while missing and beside:
            hole = _best(beside, missing)
            start, stop = hole
            length = min(missing, stop - start)
            run = (start, start + length) if beside.pop(hole) else (stop - length, stop)
            self._holes.fill(*run)
            taken.append(run)
            missing -= length
        return nodes_of(taken + self._take(missing))

    def shrink(self, held: NodeArray, count: int) -> tuple[NodeArray, NodeArray]:
        """Releases whole runs, the shortest first, then the end of one that makes a hole longer.

        Raises ValueError if the job has fewer.
        """
        check_released(count, len(held))
        kept = sorted(runs_of(held), key=lambda run: (run[1] - run[0], run[0]))
        released: list[Run] = []
        missing = count
        while missing:
            start, stop = kept.pop(0)
            length = min(missing, stop - start)
            if self._holes.ending_at(start) and not self._holes.starting_at(stop):
                released.append((start, start + length))
                start += length
            else:
                released.append((stop - length, stop))
                stop -= length
            if start < stop:
                kept.append((start, stop))
            missing -= length
        for run in released:
            self._holes.open(*run)
        return nodes_of(kept), nodes_of(released)

    def _take(self, count: int) -> list[Run]:
        runs: list[Run] = []
        missing = count
        while missing:
            start, stop = self._holes.best_fit(missing) or self._holes.largest()
            stop = min(stop, start + missing)
            self._holes.fill(start, stop)
            runs.append((start, stop))
            missing -= stop - start
        return runs

    def _beside(self, runs: list[Run]) -> dict[Run, bool]:
        """Holes that touch the runs, with whether they are to be filled from their start."""
        found: dict[Run, bool] = {}
        for start, stop in runs:
            before = self._holes.ending_at(start)
            if before is not None:
                found.setdefault(before, False)
            behind = self._holes.starting_at(stop)
            if behind is not None:
                found[behind] = True
        return found


def _best(holes: dict[Run, bool], length: int) -> Run:
    """The shortest that holds so many, else the longest; of equals the first."""
    enough = [run for run in holes if run[1] - run[0] >= length]
    if enough:
        return min(enough, key=lambda run: (run[1] - run[0], run[0]))
    return max(holes, key=lambda run: (run[1] - run[0], -run[0]))
