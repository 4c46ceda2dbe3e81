"""Recorder of the last events and actions, for reports of broken invariants."""

from __future__ import annotations

from collections import deque


class BrokenInvariantError(Exception):
    """The true state of the simulated cluster violates an invariant: always a defect."""


class FlightRecorder:
    """Buffer of the last entries; they are formatted only on request."""

    def __init__(self, kept: int = 200) -> None:
        self._entries: deque[tuple[int, object]] = deque(maxlen=kept)

    def note(self, time_ns: int, what: object) -> None:
        """Add an event, an action or a remark."""
        self._entries.append((time_ns, what))

    def text(self) -> str:
        """Return one line per entry, oldest first."""
        return "\n".join(f"{time_ns / 1e9:.6f} s  {what}" for time_ns, what in self._entries)
