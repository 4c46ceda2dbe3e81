"""Lag of the coordinator's event loop, which must not be mistaken for silence of a node.

A periodic beat records how late it runs. Everything else in the loop was delayed by the same time,
including messages that had already arrived. `OwnLag.total_ns` only grows. A function that waits for
input subtracts its growth from the time since the last input.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

BEAT_NS = 50_000_000
TOLD_NS = 500_000_000
"""A lag from this on is logged. Leases of 10 s are renewed every 3.3 s."""

log = logging.getLogger("wattfold.coordinator")


class OwnLag:
    """Counts the lag. ``now_ns`` is a monotonic clock."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.total_ns = 0
        self.longest_ns = 0
        self._due_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat in the running loop."""
        self._due_ns = self._now_ns() + BEAT_NS
        loop = asyncio.get_running_loop()
        # A task would run only after timers that are due later.
        self._timer = loop.call_later(BEAT_NS / 1e9, self._beat)

    def stop(self) -> None:
        """Stop the beat."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.note(self._now_ns() - self._due_ns)
        self.start()

    def note(self, late_ns: int) -> None:
        """Record that a turn came ``late_ns`` late."""
        self.total_ns += max(late_ns, 0)
        self.longest_ns = max(self.longest_ns, late_ns)
        if late_ns >= TOLD_NS:
            log.warning("own_lag late_ms=%.0f: the coordinator itself was delayed", late_ns / 1e6)


class Silence:
    """Time since the last input, without the time in which the loop could not read input."""

    def __init__(self, lag: OwnLag, now_ns: Callable[[], int]) -> None:
        self._lag = lag
        self._now_ns = now_ns
        self.heard()

    def heard(self) -> None:
        """Record an input."""
        self._at_ns, self._lag_ns = self._now_ns(), self._lag.total_ns

    @property
    def lasted_ns(self) -> int:
        """Duration of the silence while the loop was reading."""
        own_ns = self._lag.total_ns - self._lag_ns
        return max(self._now_ns() - self._at_ns - own_ns, 0)
