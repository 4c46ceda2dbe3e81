"""Progress of a sweep: a bar with the remaining time on a terminal, otherwise occasional lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LINE_EVERY_S = 15.0


class SweepProgress(Protocol):
    """Display that is notified of every ended case."""

    def start(self, total: int, stored: int) -> None:
        """Start a sweep of ``total`` cases, of which ``stored`` have a result."""

    def ended(self, label: str, failed: bool) -> None:
        """Count an ended case."""


class Silent:
    """Display without output."""

    def start(self, total: int, stored: int) -> None:
        """Show nothing."""

    def ended(self, label: str, failed: bool) -> None:
        """Show nothing."""


class BarProgress:
    """A bar on a terminal; use as a context."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            # Cases differ in length, so the remaining time uses many of them.
            speed_estimate_period=600,
        )
        self._task = self._bar.add_task("cases", total=None)
        self._total = 0

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def start(self, total: int, stored: int) -> None:
        """Set the length without stored results, which would distort the remaining time."""
        self._total += total - stored
        self._bar.update(self._task, total=self._total)
        if stored:
            self._bar.console.print(f"{stored} of {total} cases have a stored result")

    def ended(self, label: str, failed: bool) -> None:
        """Advance the bar; a failure gets a line above it."""
        if failed:
            self._bar.console.print(f"failed: {label}", highlight=False)
        self._bar.update(self._task, advance=1, description=label[:40])


class LineProgress:
    """Lines for a log: the first case, the last case, and one line per quarter of a minute."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._total = self._ended = 0
        self._begun = self._said = 0.0

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def start(self, total: int, stored: int) -> None:
        """Write the number of cases."""
        if not self._total:
            self._begun = time.monotonic()
        self._total += total - stored
        self._write(f"{total} cases, {stored} of them with a stored result")

    def ended(self, label: str, failed: bool) -> None:
        """Count a case, and write a line if it is time."""
        self._ended += 1
        now = time.monotonic()
        if failed:
            self._write(f"failed: {label}")
        due = self._ended in (1, self._total) or now - self._said >= _LINE_EVERY_S
        if not due:
            return
        self._said = now
        left_s = (now - self._begun) / self._ended * (self._total - self._ended)
        self._write(f"{self._ended} of {self._total} cases, about {left_s:.0f} s left ({label})")


def progress_on(console: Console) -> BarProgress | LineProgress:
    """Return a bar if the console is a terminal, else lines."""
    if console.is_terminal:
        return BarProgress(console)
    return LineProgress(lambda text: console.print(text, highlight=False, soft_wrap=True))
