"""Durations of the restart of a simulated program at another size."""

from __future__ import annotations

from dataclasses import dataclass

GRACE_NS = 10_000_000_000
"""Grace time of a command that does not state it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTimes:
    """Time to save and time to start.

    ``save_ns`` is the time from the command to the end of the last process. ``start_ns`` is the
    time from the moment at which all new processes run until the program resumes its work.
    """

    save_ns: int = 0
    start_ns: int = 0

    def __post_init__(self) -> None:
        if self.save_ns < 0 or self.start_ns < 0:
            raise ValueError(
                f"times must not be negative, got {self.save_ns} and {self.start_ns} ns"
            )

    @property
    def total_ns(self) -> int:
        """Total pause of its work."""
        return self.save_ns + self.start_ns
