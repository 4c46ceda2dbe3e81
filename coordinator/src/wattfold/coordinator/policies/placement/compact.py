"""Best-fit placement on consecutive numbers: each job occupies as few runs as possible.

A new job gets the shortest hole that holds it. If there is none, it gets the longest holes, one
after another, until the rest fits into a hole: the minimum number of pieces. Growth first uses the
holes adjacent to the job, then the rule for new jobs. Consecutive numbers are assumed to be close
to each other; the network is unknown.
"""

from __future__ import annotations

from wattfold.coordinator.models.torus import NodeArray
from wattfold.coordinator.policies.placement.holes import HoleSelector, Run, nodes_of, runs_of
from wattfold.coordinator.policies.placement.selector import check_released, check_wanted


class CompactSelector(HoleSelector):
    """Holes filled by best fit."""

    __slots__ = ()

    def take(self, count: int) -> NodeArray:
        """Take the fewest runs that hold ``count`` nodes. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        return nodes_of(self._take(count))

    def grow(self, held: NodeArray, count: int) -> NodeArray:
        """Take free nodes next to the runs of the job, then others. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        taken: list[Run] = []
        missing = count
        beside = self._adjacent_holes(runs_of(held)) if count else {}
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
        """Release whole runs, the shortest first, then an end that extends a hole.

        Raises ValueError if the job has fewer nodes.
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

    def _adjacent_holes(self, runs: list[Run]) -> dict[Run, bool]:
        """Return the holes adjacent to the runs, and whether to fill each from its start."""
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
    """Return the shortest hole of at least ``length``, or else the longest; the first of equals."""
    enough = [run for run in holes if run[1] - run[0] >= length]
    if enough:
        return min(enough, key=lambda run: (run[1] - run[0], run[0]))
    return max(holes, key=lambda run: (run[1] - run[0], -run[0]))
