"""What all commands that run a published evaluation again have in common: its run and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.session import Session
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn
from wattfold.coordinator.simulation.sweep.progress import SweepProgress, progress_on
from wattfold.coordinator.simulation.sweep.run import Failure


class Ended(Protocol):
    """An evaluation that has been run."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Cases without a result."""

    @property
    def cases(self) -> int:
        """All of them."""


@contextmanager
def running(session: Session, folder: Path) -> Iterator[SweepProgress]:
    """Runs cases and writes their report with progress shown; what goes wrong is for people."""
    progress = progress_on(session.console(stderr=True))
    try:
        with progress, expected_failures():
            yield progress
    except KeyboardInterrupt:
        warn(f"stopped; the same command goes on where it was, its results are in {folder}/cases")
        raise
    except OSError as error:
        raise CliError(f"{folder}: cannot be written: {error.strerror or error}") from error


def check_complete(evaluation: Ended) -> None:
    """Cases without a result make the command fail, after everything else is shown."""
    if evaluation.failures:
        first = evaluation.failures[0]
        raise CliError(
            f"{len(evaluation.failures)} of {evaluation.cases} cases failed, the first of them "
            f"{first.label}: {first.reason}"
        )
