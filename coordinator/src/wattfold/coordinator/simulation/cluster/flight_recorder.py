"""The last events and actions, to be told when an invariant breaks."""

from __future__ import annotations

from collections import deque


class BrokenInvariantError(Exception):
    """The truth of the simulated cluster is not what must always hold: a defect, never a result."""


class FlightRecorder:
    """Keeps the last entries; they are put into words only when asked for."""

    def __init__(self, kept: int = 200) -> None:
        self._entries: deque[tuple[int, object]] = deque(maxlen=kept)

    def note(self, time_ns: int, what: object) -> None:
        """Adds an event, an action or a remark."""
        self._entries.append((time_ns, what))

    def text(self) -> str:
        """One line an entry, oldest first."""
        return "\n".join(f"{time_ns / 1e9:.6f} s  {what}" for time_ns, what in self._entries)
