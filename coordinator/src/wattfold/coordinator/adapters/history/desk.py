"""Answers requests about the history in a process of its own, so that the loop never waits.

The process starts with the first request. It opens the file for each answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wattfold.coordinator.adapters.history import answers
from wattfold.coordinator.adapters.history.questions import HistoryQuestion, ReportQuestion
from wattfold.coordinator.adapters.history.recorder import HistoryRecorder
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success, WorkerBusyError

ANSWER_DEADLINE_S = 60.0


class HistoryWorker(Protocol):
    """Runs a function elsewhere."""

    async def call(
        self, function: Callable[..., object], *args: object, deadline_s: float
    ) -> CallResult:
        """Run ``function(*args)``."""


class NoHistoryError(Exception):
    """A request has no answer. The message gives the reason."""


class HistoryDesk:
    """Serialised answers from the history file, after pending rows were written."""

    def __init__(self, worker: HistoryWorker, path: Path, recorder: HistoryRecorder) -> None:
        self._worker = worker
        self._path = path
        self._recorder = recorder

    async def history(self, question: HistoryQuestion) -> bytes:
        """Return a `ListHistoryResponse`. Raises NoHistoryError."""
        return await self._answer(answers.history, question)

    async def report(self, question: ReportQuestion) -> bytes:
        """Return a `GetReportResponse`. Raises NoHistoryError."""
        return await self._answer(answers.report, question)

    async def _answer(self, function: Callable[..., bytes], question: object) -> bytes:
        await self._recorder.flush()
        try:
            result = await self._worker.call(
                function, self._path, question, deadline_s=ANSWER_DEADLINE_S
            )
        except WorkerBusyError:
            raise NoHistoryError(
                "too many requests for the history wait already; try again later"
            ) from None
        if isinstance(result, Success):
            found: bytes = result.value
            return found
        reason = result.reason if isinstance(result, Crashed) else "no answer in time"
        raise NoHistoryError(f"the history could not be read: {reason}")
