"""Waiting jobs, by the time at which they have waited too long (`held_nodes`)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

LEAST_NS = 60_000_000_000
"""Minimum estimate in ns: a job of a few seconds does not become urgent after seconds."""
TRIED_MAX = 8
"""Number of impatient jobs that a round considers; some of them may not fit now."""

Turn = tuple[int, str]
"""Sort key of impatient jobs: time of submission, and name."""


class Impatient:
    """Queue of impatient jobs. Jobs are added when they wait or change; others are dropped."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._known: dict[int, tuple[int, Turn]] = {}
        """Time at which each job has waited too long, and its turn, as last added."""
        self._due: list[tuple[int, int]] = []
        self._queue: list[tuple[Turn, int]] = []

    def add(self, job: int, turn: Turn, estimate_ns: int) -> None:
        """Add a job that has been waiting since the time in ``turn``."""
        due_ns = turn[0] + round(self._patience * max(estimate_ns, LEAST_NS))
        if self._known.get(job) != (due_ns, turn):
            self._known[job] = due_ns, turn
            heappush(self._due, (due_ns, job))

    def first(self, waits: Callable[[int], bool], now_ns: int) -> list[int]:
        """Return the first jobs that have waited too long, the oldest first."""
        while self._due and (self._due[0][0] <= now_ns or not self._stands(self._due[0], waits)):
            entry = heappop(self._due)
            if self._stands(entry, waits):
                heappush(self._queue, (self._known[entry[1]][1], entry[1]))
        found: list[tuple[Turn, int]] = []
        while self._queue and len(found) < TRIED_MAX:
            turn, job = heappop(self._queue)
            due_ns, known = self._known.get(job, (now_ns + 1, turn))
            if waits(job) and due_ns <= now_ns and known == turn and (turn, job) not in found:
                found.append((turn, job))
        for entry_found in found:
            heappush(self._queue, entry_found)
        return [job for _, job in found]

    def next_ns(self, now_ns: int) -> int:
        """Return when the next job will have waited too long, after `first`; 0 = never."""
        return self._due[0][0] if self._due and self._due[0][0] > now_ns else 0

    def _stands(self, entry: tuple[int, int], waits: Callable[[int], bool]) -> bool:
        """Return whether an entry is current and its job still waits."""
        due_ns, job = entry
        if not waits(job):
            self._known.pop(job, None)
            return False
        return job in self._known and self._known[job][0] == due_ns
