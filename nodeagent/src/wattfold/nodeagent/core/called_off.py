"""Attempts of jobs that were to end before they had come: they do not start any more.

An order to end what was to be started may overtake the order to start it, whose answer was lost.
Who sent both has given the attempt up, and nobody would end what started then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S

KEPT_NS = 120 * NS_PER_S
"""No order is on its way for longer, as connections are given up within a minute. A coordinator
with a new journal, whose jobs have the same names again, waits for no more than this."""
KEPT_MAX = 4096


@dataclass(slots=True)
class CalledOff:
    """The newest such attempt of each job, for a while."""

    _attempts: dict[JobId, tuple[int, int]] = field(default_factory=dict)
    """Attempt, and when it was to end; the oldest first."""

    def add(self, job: JobId, attempt: int, now_ns: int) -> None:
        """An attempt was to end that is not here."""
        newest, _ = self._attempts.pop(job, (0, 0))
        self._attempts[job] = max(attempt, newest), now_ns
        while len(self._attempts) > KEPT_MAX:
            del self._attempts[next(iter(self._attempts))]

    def stands(self, job: JobId, attempt: int, now_ns: int) -> bool:
        """Whether an attempt is not to start."""
        newest, since_ns = self._attempts.get(job, (0, 0))
        return 0 < attempt <= newest and now_ns - since_ns < KEPT_NS
