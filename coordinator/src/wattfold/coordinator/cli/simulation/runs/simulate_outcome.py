"""Outcomes of runs of `wattfold simulate`, and their progress bar."""

from __future__ import annotations

from dataclasses import dataclass

from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.results.metrics import Metrics, metrics_of
from wattfold.simulator.runs.execute import RunOutcome
from wattfold.simulator.workloads.odd_rows import OddRowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """Settings of all runs of a command."""

    resume: bool
    formats: tuple[str, ...]
    checkpoint_every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSimulation:
    """A run with its metrics."""

    record: RunRecord
    metrics: Metrics
    report: OddRowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run that is not possible, for example under a budget that is too small for its jobs."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A stop by Ctrl-C, with a message about how to resume."""

    message: str


def finished(outcome: RunOutcome) -> FinishedSimulation:
    """Return the metrics of a finished run."""
    assert outcome.record is not None
    metrics = metrics_of(outcome.record)
    return FinishedSimulation(record=outcome.record, metrics=metrics, report=outcome.report)


def progress_bar(session: Session) -> Progress:
    """Return a progress bar, which is shown on a terminal only, and not with JSON output."""
    console = session.console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or session.json,
    )
