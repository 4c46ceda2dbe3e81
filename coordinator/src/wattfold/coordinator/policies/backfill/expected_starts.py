"""Expected starts of the jobs behind the head of a queue, for users and for nodes that sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.backfill.candidates import Candidate, RunningJob
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes

STARTS_MAX = 16
"""Maximum number of waiting jobs with an expected start."""
LOOKS_MAX = 64
"""Maximum number of tries in the search for these starts, beyond the start of the first job."""

TakesNs = Callable[[JobView, Sequence[Share], int, int], int]
"""Time of a job on nodes, at a size and a level."""
_Moment = tuple[int, int, RunningJob | None]
"""Time of an end, a number that orders equal times, and the job that ends then."""


class Unexplained(NamedTuple):
    """Jobs that wait behind the head of a queue, and what was free after its backfilling."""

    head: Candidate
    shadow_ns: int
    """Start of the head; 0 = unknown, and no starts are expected."""
    left: Sequence[Candidate]
    room: Room
    running: Sequence[RunningJob]

    def starts(self, window_ends_ns: Iterable[int], takes_ns: TakesNs) -> dict[int, int]:
        """Return the expected starts behind the head by the estimates, if the search is cheap.

        No job starts before the jobs ahead of it, so backfilling may start a job earlier.
        ``window_ends_ns``: when reserved nodes are free again. ``takes_ns`` returns the time of a
        job on nodes.
        """
        head, shadow_ns, left, room, running = self
        found: dict[int, int] = {}
        if not shadow_ns or not left:
            return found
        future, numbers, looks = room.copy(), count(), 0
        ends = [(entry.ends_ns, next(numbers), entry) for entry in running]
        overs = [(time_ns, next(numbers), None) for time_ns in window_ends_ns]
        moments: list[_Moment] = [*ends, *overs]
        heapify(moments)
        _pass(moments, shadow_ns, future)
        for one in (head, *left[: STARTS_MAX - 1]):
            while (shares := one.place(future)) is None:
                looks += 1
                if looks > LOOKS_MAX or not moments:
                    return found
                _pass(moments, moments[0][0], future)
            found[one.job] = future.at_ns
            ends_ns = future.at_ns + takes_ns(one.view, shares, one.size, one.cap_uw)
            power_uw = future.power_of(shares, one.cap_uw, one.view.spec.levels)
            alone = takes_whole_nodes(one.view.spec)
            future.take(shares, power_uw, alone)
            begun = RunningJob(
                job=one.job,
                view=one.view,
                due_ns=ends_ns,
                ends_ns=ends_ns,
                shares=shares,
                power_uw=power_uw,
                alone=alone,
            )
            heappush(moments, (ends_ns, next(numbers), begun))
        return found


def _pass(moments: list[_Moment], time_ns: int, future: Room) -> None:
    """Advance the free resources to a time, releasing jobs that have ended by then."""
    while moments and moments[0][0] <= time_ns:
        entry = heappop(moments)[2]
        if entry is not None:
            future.give_back(entry.shares, entry.power_uw, entry.alone)
    future.at_ns = max(future.at_ns, time_ns)
