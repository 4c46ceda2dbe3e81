"""Search of one round of `pbs`: reservations for the first blocked jobs, backfilling of others.

Fitting and placement are those of `conservative_search`, on the `timeline` of all nodes, but no
start is promised: every round makes new reservations. The search computes reservations only if they
matter for a later job that could start now. It stops as soon as that job no longer fits, or all
remaining reservations begin after its end. On a full machine no job could start, so the round is
short. If a shape of job does not fit now, jobs of this shape with the same or a longer run time are
not tried again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wattfold.coordinator.core.model.reservation import ENDLESS_NS
from wattfold.coordinator.policies.backfill.candidates import Candidate, Shape
from wattfold.coordinator.policies.backfill.conservative_search import ConservativeSearch
from wattfold.coordinator.policies.backfill.easy_search import SearchCache
from wattfold.coordinator.policies.backfill.promises import TimedRequest
from wattfold.coordinator.policies.backfill.timeline import Need, NodesHold, Timeline
from wattfold.coordinator.policies.port import Decision

FULL = "does not fit now"
KEPT = "waits for resources that are reserved for it"
BESIDE = "does not fit now in addition to the resources reserved for earlier jobs"
UNSEEN = "is considered when some of the jobs ahead of it have started"


@dataclass(frozen=True, slots=True)
class PbsKnown(SearchCache):
    """A `SearchCache` with needs of shapes and requests of the jobs of the last round."""

    needs: dict[Shape, Need] = field(default_factory=dict)
    requests: dict[int, tuple[Candidate, TimedRequest[Need]]] = field(default_factory=dict)


class PbsSearch(ConservativeSearch):
    """The search of one round. Up to ``depth`` blocked jobs get reserved resources.

    ``looks_on``: whether jobs behind them are considered.
    """

    def __init__(self, *, depth: int, looks_on: bool, known: PbsKnown, **parts: Any) -> None:
        super().__init__(promised={}, most=depth, lag_ns=0, known=known, **parts)
        self._looks_on = looks_on
        self._needs, self._asked = known.needs, known.requests
        self._blocked: deque[Candidate] = deque()
        """Blocked jobs that may get a reservation but do not have it yet."""
        self._kept_for = 0
        self._failed: dict[Shape, int] = {}
        """Shortest run time of each shape that does not fit now, in nanoseconds."""
        self._first: dict[Shape, tuple[int, int]] = {}
        """Run time and start of the last reservation of each shape."""
        self._soonest_ns: dict[Shape, int] = {}
        """Earliest time at which each shape fits, if only for a moment."""

    def decide(self) -> Decision:
        """Return the starting jobs, in order."""
        queue = [one for one in self._waiting if self._may_start(one)]
        # Jobs of a reservation go first: its nodes are reserved for them.
        queue.sort(key=lambda candidate: not candidate.view.spec.reservation)
        requests = [self._request(one) for one in queue]
        self._asked.clear()
        asked = zip(queue, requests, strict=True)
        self._asked.update((one.job, (one, request)) for one, request in asked)
        timeline = self._timeline(requests, ())
        for number, (one, request) in enumerate(zip(queue, requests, strict=True)):
            if not self._looks_on and self._kept_for + len(self._blocked) >= self._most:
                self._say(queue[number:], UNSEEN)
                break
            self._look_at(one, request, timeline)
        self._say(self._blocked, KEPT)
        return Decision(self._changes, self.preemptions)

    def _request(self, candidate: Candidate) -> TimedRequest[Need]:
        """Return the request of a job; the request of the last round if the job is unchanged."""
        before = self._asked.get(candidate.job)
        return (
            before[1]
            if before is not None and before[0] is candidate
            else super()._request(candidate)
        )

    def _look_at(
        self, candidate: Candidate, request: TimedRequest[Need], timeline: Timeline
    ) -> None:
        """Start a job if it fits next to the reservations; otherwise let it wait for its own."""
        shape = candidate.shape
        failed_ns = self._failed.get(shape)
        if failed_ns is not None and failed_ns <= request.takes_ns:
            self._let_wait(candidate, FULL if failed_ns <= 1 else BESIDE)
            return
        if not self._fits_now(request, timeline):
            self._failed[shape] = 1
            self._let_wait(candidate, FULL)
            return
        hold = self._beside_kept(request, timeline)
        if hold is None:
            self._failed[shape] = request.takes_ns
            self._let_wait(candidate, BESIDE)
            return
        timeline.take(hold)
        self._begin(candidate, hold)

    def _fits_now(self, request: TimedRequest[Need], timeline: Timeline) -> bool:
        """Return whether the running jobs leave enough resources now, if only for a moment."""
        return timeline.at(request, self._now_ns, self._now_ns + 1) is not None

    def _let_wait(self, candidate: Candidate, reason: str) -> None:
        if self._kept_for + len(self._blocked) < self._most:
            self._blocked.append(candidate)
        else:
            self._wait(candidate, self._kept_from(candidate) or reason)

    def _beside_kept(self, request: TimedRequest[Need], timeline: Timeline) -> NodesHold | None:
        """Return the place of a job that starts now, next to the reservations of earlier jobs."""
        now_ns, end_ns = self._now_ns, self._now_ns + request.takes_ns
        hold = timeline.at(request, now_ns, end_ns)
        # A reservation that begins after its end does not conflict with it and is computed later.
        later = len(self._blocked)
        while hold is not None:
            while later and self._begins_ns(self._blocked[later - 1], timeline) >= end_ns:
                later -= 1
            if not later:
                break
            kept, later = self._keep_room(self._blocked.popleft(), timeline), later - 1
            if kept is not None and kept.start_ns < end_ns:
                hold = timeline.at(request, now_ns, end_ns)
        return hold

    def _begins_ns(self, candidate: Candidate, timeline: Timeline) -> int:
        """Return the earliest possible start of a job, ignoring reservations not made yet."""
        request = self._request(candidate)
        # Nothing is released, so a job that takes as long or longer starts no earlier.
        known_ns, start_ns = self._first.get(candidate.shape, (request.takes_ns + 1, 0))
        if known_ns <= request.takes_ns:
            return start_ns
        if candidate.shape not in self._soonest_ns:
            hold = timeline.earliest(request, 1, self._now_ns, None)
            self._soonest_ns[candidate.shape] = hold.start_ns if hold is not None else ENDLESS_NS
        return self._soonest_ns[candidate.shape]

    def _keep_room(self, candidate: Candidate, timeline: Timeline) -> NodesHold | None:
        """Reserve the earliest place for a job."""
        request, from_ns, hold = (
            self._request(candidate),
            self._begins_ns(candidate, timeline),
            None,
        )
        if from_ns < ENDLESS_NS:
            hold = timeline.earliest(request, request.takes_ns, from_ns, None)
        self._first[candidate.shape] = (
            request.takes_ns,
            ENDLESS_NS if hold is None else hold.start_ns,
        )
        self._kept_for += 1
        if hold is not None:
            timeline.take(hold)
        self._tell_start(candidate, hold)
        return hold

    def _tell_start(self, candidate: Candidate, hold: NodesHold | None) -> None:
        self._wait(
            candidate, self._kept_from(candidate) or KEPT, hold.start_ns if hold is not None else 0
        )

    def _say(self, jobs: Iterable[Candidate], reason: str) -> None:
        for one in jobs:
            self._wait(one, self._kept_from(one) or reason)
