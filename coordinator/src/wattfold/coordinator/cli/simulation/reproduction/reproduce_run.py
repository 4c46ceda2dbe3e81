"""Common parts of the commands that rerun a published evaluation: the run and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import EvaluationReport
    from wattfold.simulator.sweep.local import LocalCores
    from wattfold.simulator.sweep.progress import SweepProgress

_INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Number of processes. Default: the number of cores.",
)


def out_option(paper: str) -> Callable[[F], F]:
    """Return the option for the output folder of a paper's command."""
    return click.option(
        "--out",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(f"reproduce-{paper}"),
        show_default=True,
        metavar="DIR",
        help="Folder for the report, the plots and the results of all cases.",
    )


def local_cores(jobs: int | None) -> LocalCores:
    """Return a backend with ``jobs`` processes, or one process for each core."""
    from wattfold.simulator.sweep.local import LocalCores

    return LocalCores(processes=jobs or len(os.sched_getaffinity(0)))


@contextmanager
def running(session: Session, folder: Path) -> Iterator[SweepProgress]:
    """Run cases and write their report with visible progress; convert failures for people."""
    from wattfold.simulator.sweep.progress import progress_on

    require("matplotlib")
    progress = progress_on(session.console(stderr=True))
    try:
        with progress, expected_failures():
            yield progress
    except KeyboardInterrupt:
        warn(f"stopped; the same command continues with the results in {folder}/cases")
        raise
    except OSError as error:
        raise CliError(f"{folder}: cannot be written: {error.strerror or error}") from error


def finish(
    session: Session, report: EvaluationReport, written: Sequence[Path], folder: Path
) -> None:
    """Show the results. Raises CliError, after everything else, if cases have no result."""
    from wattfold.coordinator.cli.simulation.reproduction.reproduce_tables import print_report
    from wattfold.simulator.papers.report import document

    if session.json:
        session.print_json({**document(report), "files": [str(path) for path in written]})
    else:
        print_report(session, report, folder)
    totals = report.totals
    if totals.failures:
        first = totals.failures[0]
        raise CliError(
            f"{len(totals.failures)} of {totals.cases} cases failed, the first of them "
            f"{first.label}: {first.reason}"
        )


def run_trials(module: str, out: Path, work: Path, options: Sequence[str] = ()) -> None:
    """Run trials of real programs that write their measurements to a file, in a work folder.

    ``module`` runs as a program, because it and its site are above the command in the import order.
    Its progress is on standard error. Raises CliError, KeyboardInterrupt.
    """
    places = (f"--out={out.absolute()}", f"--work={work.absolute()}")
    # Ctrl-C goes to the trials, which must end their site first.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run([sys.executable, "-m", module, *places, *options], check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        raise CliError("the trials with real programs failed; see the messages above")
