"""Attempts of jobs that were ended before their start order arrived: they must not start.

An order to end an attempt may overtake the order to start it, whose answer was lost. The
coordinator has given this attempt up, so nothing would end it after its start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S

KEPT_NS = 120 * NS_PER_S
"""Retention time. No order is pending longer, because connections end within a minute.

A coordinator with a new journal, whose jobs have the same names again, waits at most this time.
"""
KEPT_MAX = 4096


@dataclass(slots=True)
class CalledOff:
    """The newest such attempt of each job, for a limited time."""

    _attempts: dict[JobId, tuple[int, int]] = field(default_factory=dict)
    """Attempt, and the time of the order to end it, oldest first."""

    def add(self, job: JobId, attempt: int, now_ns: int) -> None:
        """Record an order to end an attempt that is not on this node."""
        newest, _ = self._attempts.pop(job, (0, 0))
        self._attempts[job] = max(attempt, newest), now_ns
        while len(self._attempts) > KEPT_MAX:
            del self._attempts[next(iter(self._attempts))]

    def stands(self, job: JobId, attempt: int, now_ns: int) -> bool:
        """Whether an attempt must not start."""
        newest, since_ns = self._attempts.get(job, (0, 0))
        return 0 < attempt <= newest and now_ns - since_ns < KEPT_NS
