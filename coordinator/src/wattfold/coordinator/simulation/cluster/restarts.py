"""How long it takes a simulated program to be restarted at another size."""

from __future__ import annotations

from dataclasses import dataclass

GRACE_NS = 10_000_000_000
"""What a command that names no grace time gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTimes:
    """``save_ns`` from the command to the end of the last process, ``start_ns`` from the first
    moment at which all new ones run until they go on where the old ones were.
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
        """How long its work stands still."""
        return self.save_ns + self.start_ns
