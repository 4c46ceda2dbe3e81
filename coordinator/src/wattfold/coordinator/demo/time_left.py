"""Estimate of the time that a demonstration still takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PACE_MIN, PACE_MAX = 0.2, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPart:
    """A part of the demonstration, and its usual time on two idle cores, in seconds."""

    name: str
    usual_s: float


class TimeLeft:
    """Steps in order. The pace of the steps that have ended predicts the others."""

    def __init__(
        self, steps: Sequence[DemoPart], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps = tuple(steps)
        self._now = now
        self._current = 0
        self._began_s = self._step_began_s = now()

    def begin(self, name: str) -> None:
        """Begin a step by its name. Raises ValueError for an unknown step."""
        names = [step.name for step in self._steps]
        self._current = names.index(name)
        self._step_began_s = self._now()

    def left_s(self) -> float:
        """Return the seconds until the end of the last step."""
        usual_s = sum(step.usual_s for step in self._steps[: self._current])
        spent_s = self._step_began_s - self._began_s
        pace = min(max(spent_s / usual_s, PACE_MIN), PACE_MAX) if usual_s and spent_s else 1.0
        in_step_s = self._now() - self._step_began_s
        current_s = max(self._steps[self._current].usual_s * pace - in_step_s, 0.0)
        later_s = sum(step.usual_s for step in self._steps[self._current + 1 :]) * pace
        return current_s + later_s

    def text(self) -> str:
        """Format the time left, such as `about 2 min 10 s left`."""
        left_s = max(int(round(self.left_s() / 10) * 10), 10)
        minutes, seconds = divmod(left_s, 60)
        parts = [f"{minutes} min"] if minutes else []
        parts += [f"{seconds} s"] if seconds else []
        return f"about {' '.join(parts)} left"
