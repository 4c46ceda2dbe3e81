"""Repeated warnings: one line at once, then at most one line per pause, with the count."""

from __future__ import annotations

from dataclasses import dataclass

PAUSE_S = 60.0
SUBJECTS_MAX = 256
"""Further subjects share one entry."""
_OTHERS = "others"


@dataclass(slots=True)
class _Subject:
    at_s: float
    held: int = 0


class Repeats:
    """Rate limiter for log lines of repeated events of a subject.

    Times are seconds of any monotonic clock. If there are too many subjects, those without an event
    for one pause are forgotten.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._subjects: dict[str, _Subject] = {}

    def one_more(self, subject: str, now_s: float) -> int:
        """Return the number of events that a line stands for, including this event; 0 = no line."""
        known = self._subjects.get(subject)
        if known is None and len(self._subjects) >= SUBJECTS_MAX:
            self._forget_quiet(now_s)
            if len(self._subjects) >= SUBJECTS_MAX:
                subject = _OTHERS
                known = self._subjects.get(subject)
        if known is None:
            self._subjects[subject] = _Subject(now_s)
            return 1
        if now_s < known.at_s + self._pause_s:
            known.held += 1
            return 0
        count = known.held + 1
        known.at_s, known.held = now_s, 0
        return count

    def _forget_quiet(self, now_s: float) -> None:
        for subject, known in list(self._subjects.items()):
            if now_s >= known.at_s + self._pause_s:
                del self._subjects[subject]
