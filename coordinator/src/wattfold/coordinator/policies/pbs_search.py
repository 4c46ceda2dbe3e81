"""One round of `pbs`: a queue in order, room kept for the first that do not fit, others beside it.

Fitting and places are those of `conservative_search`, on the `timeline` of all nodes, but nothing
is promised: every round keeps room anew. Where room is kept is only worked out as far as it matters
to somebody behind it that could start now: until that one has no room any more, or all others begin
after its end. Of a full machine that is nobody, and the round is short. What a shape of job had no
room for now is not tried again, for as long or longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattfold.coordinator.core.reservation import ENDLESS_NS
from wattfold.coordinator.policies.conservative_search import ConservativeSearch
from wattfold.coordinator.policies.easy_search import Candidate, Known, Shape
from wattfold.coordinator.policies.promises import Request
from wattfold.coordinator.policies.scheduler import Decision
from wattfold.coordinator.policies.timeline import Need, NodesHold, Timeline

FULL = "does not fit now"
KEPT = "does not fit now; resources are reserved for it"
BESIDE = "does not fit now in addition to the resources reserved for earlier jobs"
UNSEEN = "is considered when some of the jobs ahead of it have started"


@dataclass(frozen=True, slots=True)
class PbsKnown(Known):
    """What is known of shapes beside, and what jobs of the last round asked for."""

    needs: dict[Shape, Need] = field(default_factory=dict)
    requests: dict[int, tuple[Candidate, Request[Need]]] = field(default_factory=dict)


class PbsSearch(ConservativeSearch):
    """One round. ``depth``: for so many that do not fit room is kept.

    ``looks_on``: whether those behind them are looked at.
    """

    def __init__(self, *, depth: int, looks_on: bool, known: PbsKnown, **parts: Any) -> None:
        super().__init__(promised={}, most=depth, lag_ns=0, known=known, **parts)
        self._looks_on = looks_on
        self._needs, self._asked = known.needs, known.requests
        self._blocked: deque[Candidate] = deque()
        """Those without room now for whom room may be kept, and is not yet."""
        self._kept_for = 0
        self._failed: dict[Shape, int] = {}
        """For how long there was no room now, the least time of each shape."""
        self._first: dict[Shape, tuple[int, int]] = {}
        """For how long room was kept last for a shape, and from when on."""
        self._soonest_ns: dict[Shape, int] = {}
        """When there was room for a shape at the earliest, if only for a moment."""

    def decide(self) -> Sequence[Decision]:
        """The jobs that start, in order."""
        queue = [one for one in self._waiting if self._may_start(one)]
        # Those of a reservation first: its nodes are there for them.
        queue.sort(key=lambda one: not one.view.spec.reservation)
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
        return self._decisions

    def _request(self, one: Candidate) -> Request[Need]:
        """As in the last round, if nothing of the job has changed."""
        before = self._asked.get(one.job)
        return before[1] if before is not None and before[0] is one else super()._request(one)

    def _look_at(self, one: Candidate, request: Request[Need], timeline: Timeline) -> None:
        """Starts a job where it fits beside the room kept, or else has room kept for it."""
        shape = one.shape
        failed_ns = self._failed.get(shape)
        if failed_ns is not None and failed_ns <= request.takes_ns:
            self._let_wait(one, FULL if failed_ns <= 1 else BESIDE)
            return
        if not self._fits_now(request, timeline):
            self._failed[shape] = 1
            self._let_wait(one, FULL)
            return
        hold = self._beside_kept(request, timeline)
        if hold is None:
            self._failed[shape] = request.takes_ns
            self._let_wait(one, BESIDE)
            return
        timeline.take(hold)
        self._begin(one, hold)

    def _fits_now(self, request: Request[Need], timeline: Timeline) -> bool:
        """Whether there is room beside what runs, were it for a moment."""
        return timeline.at(request, self._now_ns, self._now_ns + 1) is not None

    def _let_wait(self, one: Candidate, reason: str) -> None:
        if self._kept_for + len(self._blocked) < self._most:
            self._blocked.append(one)
        else:
            self._wait(one, self._kept_from(one) or reason)

    def _beside_kept(self, request: Request[Need], timeline: Timeline) -> NodesHold | None:
        """The place of a job that starts now, beside room for those that wait before it."""
        now_ns, end_ns = self._now_ns, self._now_ns + request.takes_ns
        hold = timeline.at(request, now_ns, end_ns)
        # What begins after its end is not in its way, nor it in theirs: theirs is found later.
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

    def _begins_ns(self, one: Candidate, timeline: Timeline) -> int:
        """When a job has room at the earliest, whatever room is kept before."""
        request = self._request(one)
        # Nothing is given back: what takes as long, or longer, starts no earlier.
        known_ns, start_ns = self._first.get(one.shape, (request.takes_ns + 1, 0))
        if known_ns <= request.takes_ns:
            return start_ns
        if one.shape not in self._soonest_ns:
            hold = timeline.earliest(request, 1, self._now_ns, None)
            self._soonest_ns[one.shape] = hold.start_ns if hold is not None else ENDLESS_NS
        return self._soonest_ns[one.shape]

    def _keep_room(self, one: Candidate, timeline: Timeline) -> NodesHold | None:
        """Keeps room for a job, the first in time."""
        request, from_ns, hold = self._request(one), self._begins_ns(one, timeline), None
        if from_ns < ENDLESS_NS:
            hold = timeline.earliest(request, request.takes_ns, from_ns, None)
        self._first[one.shape] = request.takes_ns, ENDLESS_NS if hold is None else hold.start_ns
        self._kept_for += 1
        if hold is not None:
            timeline.take(hold)
        self._tell_start(one, hold)
        return hold

    def _tell_start(self, one: Candidate, hold: NodesHold | None) -> None:
        self._wait(one, self._kept_from(one) or KEPT, hold.start_ns if hold is not None else 0)

    def _say(self, jobs: Iterable[Candidate], reason: str) -> None:
        for one in jobs:
            self._wait(one, self._kept_from(one) or reason)
