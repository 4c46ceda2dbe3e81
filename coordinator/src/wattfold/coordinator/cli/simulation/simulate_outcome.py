"""What runs of `wattfold simulate` end with, and the bar that shows how far they are."""

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

from wattfold.coordinator.cli.shared.session import Session
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.metrics import Metrics, metrics_of
from wattfold.coordinator.simulation.runs.execute import Outcome
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What all runs of a command have in common."""

    resume: bool
    formats: tuple[str, ...]
    checkpoint_every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run with its figures."""

    record: RunRecord
    metrics: Metrics
    report: OddRowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Ctrl-C: what is left and how to go on."""

    message: str


def finished(outcome: Outcome) -> Finished:
    """The figures of a run that is done."""
    assert outcome.record is not None
    metrics = metrics_of(outcome.record)
    return Finished(record=outcome.record, metrics=metrics, report=outcome.report)


def progress_bar(session: Session) -> Progress:
    """A bar on a terminal, nothing elsewhere and beside JSON."""
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
