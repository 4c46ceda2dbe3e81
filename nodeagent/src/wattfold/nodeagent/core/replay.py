"""First answers to commands, so that a repeated command gets the same answer and acts once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class ReplayCache(Generic[Answer]):
    """The last ``limit`` answers by request ID; the oldest is dropped first."""

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, request_id: str) -> Answer | None:
        """Return the first answer to this request, if it is still stored."""
        return self._answers.get(request_id)

    def keep(self, request_id: str, answer: Answer) -> None:
        """Store the first answer; an empty ID is not stored."""
        if not request_id or request_id in self._answers:
            return
        self._answers[request_id] = answer
        while len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def drop(self, request_id: str) -> None:
        """Forget an answer (of a command that was refused and had no effect)."""
        self._answers.pop(request_id, None)
