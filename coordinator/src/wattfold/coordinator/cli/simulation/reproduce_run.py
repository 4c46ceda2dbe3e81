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

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.session import Session
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.experiments.report import Report
    from wattfold.coordinator.simulation.sweep.local import LocalCores
    from wattfold.coordinator.simulation.sweep.progress import SweepProgress

_INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Number of processes. Default: the number of cores.",
)


def out_option(paper: str) -> Callable[[F], F]:
    """Where files go, of the command of a paper."""
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
    """So many processes here, else one for each core there is."""
    from wattfold.coordinator.simulation.sweep.local import LocalCores

    return LocalCores(processes=jobs or len(os.sched_getaffinity(0)))


@contextmanager
def running(session: Session, folder: Path) -> Iterator[SweepProgress]:
    """Runs cases and writes their report with progress shown; what goes wrong is for people."""
    from wattfold.coordinator.simulation.sweep.progress import progress_on

    progress = progress_on(session.console(stderr=True))
    try:
        with progress, expected_failures():
            yield progress
    except KeyboardInterrupt:
        warn(f"stopped; the same command continues with the results in {folder}/cases")
        raise
    except OSError as error:
        raise CliError(f"{folder}: cannot be written: {error.strerror or error}") from error


def finish(session: Session, report: Report, written: Sequence[Path], folder: Path) -> None:
    """Shows what came out. Raises CliError, after all else, where cases have no result."""
    from wattfold.coordinator.cli.simulation.reproduce_tables import print_report
    from wattfold.coordinator.simulation.experiments.report import document

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
    """Has trials of real programs write what they measure to a file, working in a folder.

    ``module`` is run as a program: it stands above the command, with the site that it starts. Its
    progress is on standard error. Raises CliError, KeyboardInterrupt.
    """
    places = (f"--out={out.absolute()}", f"--work={work.absolute()}")
    # Ctrl-C is for the trials, which take it and have a site to end first.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run([sys.executable, "-m", module, *places, *options], check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        raise CliError("the trials with real programs failed; see the messages above")
