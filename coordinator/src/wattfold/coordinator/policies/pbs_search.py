"""One round of `pbs`: a queue in order, room kept for the first that do not fit, others beside it.

Fitting and places are those of `conservative_search`, on the `timeline` of all nodes, but nothing
is promised: every round keeps room anew. Where room is kept is only worked out for who has somebody
behind it that could start now; of a full machine that is nobody, and the round is short. What a
shape of job had no room for now is not tried again, for as long or longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattfold.coordinator.policies.conservative_search import ConservativeSearch
from wattfold.coordinator.policies.easy_search import Candidate, Shape
from wattfold.coordinator.policies.promises import Request
from wattfold.coordinator.policies.scheduler import Decision
from wattfold.coordinator.policies.timeline import Need, NodesHold, Timeline

FULL = "does not fit now"
KEPT = "does not fit now; room is kept for it"
BESIDE = "does not fit now beside the room that is kept for jobs before it"
UNSEEN = "is not looked at before some of those that wait before it have started"


@dataclass(frozen=True, slots=True)
class Known:
    """What is worked out for shapes of jobs and holds as long as the site is the same."""

    sizes: dict[tuple[object, ...], int] = field(default_factory=dict)
    startable: dict[Shape, bool] = field(default_factory=dict)
    needs: dict[Shape, Need] = field(default_factory=dict)


class PbsSearch(ConservativeSearch):
    """One round. ``depth``: for so many that do not fit room is kept.

    ``looks_on``: whether those behind them are looked at.
    """

    def __init__(self, *, depth: int, looks_on: bool, known: Known, **parts: Any) -> None:
        super().__init__(promised={}, most=depth, lag_ns=0, sizes=known.sizes, **parts)
        self._looks_on = looks_on
        self._startable, self._needs = known.startable, known.needs
        self._blocked: list[Candidate] = []
        """Those without room now for whom room may be kept, and is not yet."""
        self._kept_for = 0
        self._failed: dict[Shape, int] = {}
        """For how long there was no room now, the least time of each shape."""
        self._first: dict[Shape, tuple[int, int]] = {}
        """For how long room was kept last for a shape, and from when on."""

    def decide(self) -> Sequence[Decision]:
        """The jobs that start, in order."""
        queue = [one for one in self._waiting if self._may_start(one)]
        # Those of a reservation first: its nodes are there for them.
        queue.sort(key=lambda one: not one.view.spec.reservation)
        requests = [self._request(one) for one in queue]
        timeline = self._timeline(requests, ())
        for number, (one, request) in enumerate(zip(queue, requests, strict=True)):
            if not self._looks_on and self._kept_for + len(self._blocked) >= self._most:
                self._say(queue[number:], UNSEEN)
                break
            self._look_at(one, request, timeline)
        self._say(self._blocked, KEPT)
        return self._decisions

    def _look_at(self, one: Candidate, request: Request[Need], timeline: Timeline) -> None:
        """Starts a job where it fits beside the room kept, or else has room kept for it."""
        shape, now_ns = one.shape, self._now_ns
        failed_ns = self._failed.get(shape)
        if failed_ns is not None and failed_ns <= request.takes_ns:
            self._let_wait(one, FULL if failed_ns <= 1 else BESIDE)
            return
        if not self._fits_now(request, timeline):
            self._failed[shape] = 1
            self._let_wait(one, FULL)
            return
        self._keep_room(timeline)
        hold = timeline.at(request, now_ns, now_ns + request.takes_ns)
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

    def _keep_room(self, timeline: Timeline) -> None:
        """Keeps room for those that wait before the job that is looked at, the first in time."""
        for one in self._blocked:
            request, from_ns = self._request(one), self._now_ns
            # Nothing is given back: what takes as long, or longer, starts no earlier.
            takes_ns, start_ns = self._first.get(one.shape, (request.takes_ns + 1, from_ns))
            if takes_ns <= request.takes_ns:
                from_ns = start_ns
            hold = timeline.earliest(request, request.takes_ns, from_ns, None)
            self._kept_for += 1
            if hold is not None:
                timeline.take(hold)
                self._first[one.shape] = request.takes_ns, hold.start_ns
            self._tell_start(one, hold)
        self._blocked.clear()

    def _tell_start(self, one: Candidate, hold: NodesHold | None) -> None:
        self._wait(one, self._kept_from(one) or KEPT, hold.start_ns if hold is not None else 0)

    def _say(self, jobs: Iterable[Candidate], reason: str) -> None:
        for one in jobs:
            self._wait(one, self._kept_from(one) or reason)
