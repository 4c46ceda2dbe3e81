"""How far the coordinator's own loop is behind, so that this is never taken for a node's silence.

A beat asks for its turn at fixed times and notes how late it gets it: that is how late everything
else was, the reading of messages that had long come too. `OwnLag.total_ns` only grows; who waits
for something from outside counts the time since it came last less what the total has grown by,
which is the time in which it could have been heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

BEAT_NS = 50_000_000
TOLD_NS = 500_000_000
"""A turn that comes so late is told of; leases are renewed every third of 10 s."""

log = logging.getLogger("wattfold.coordinator")


class OwnLag:
    """Counts lateness. ``now_ns`` is a clock that never goes back."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.total_ns = 0
        self.longest_ns = 0
        self._due_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to beat, in the running loop."""
        self._due_ns = self._now_ns() + BEAT_NS
        loop = asyncio.get_running_loop()
        # Not a task: its turn would come only after that of timers that are due later.
        self._timer = loop.call_later(BEAT_NS / 1e9, self._beat)

    def stop(self) -> None:
        """Ends it."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.note(self._now_ns() - self._due_ns)
        self.start()

    def note(self, late_ns: int) -> None:
        """A turn came so late."""
        self.total_ns += max(late_ns, 0)
        self.longest_ns = max(self.longest_ns, late_ns)
        if late_ns >= TOLD_NS:
            log.warning("own_lag late_ms=%.0f: the coordinator itself was delayed", late_ns / 1e6)


class Silence:
    """Since when nothing came, without the time in which nothing could be heard."""

    def __init__(self, lag: OwnLag, now_ns: Callable[[], int]) -> None:
        self._lag = lag
        self._now_ns = now_ns
        self.heard()

    def heard(self) -> None:
        """Something came."""
        self._at_ns, self._lag_ns = self._now_ns(), self._lag.total_ns

    @property
    def lasted_ns(self) -> int:
        """How long it has been silent while we listened."""
        own_ns = self._lag.total_ns - self._lag_ns
        return max(self._now_ns() - self._at_ns - own_ns, 0)
