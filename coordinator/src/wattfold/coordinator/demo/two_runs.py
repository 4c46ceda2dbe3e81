"""Frame of a demonstration that runs the same jobs twice: options, interruption and errors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from wattfold.coordinator.demo import runner
from wattfold.coordinator.demo.observer import FOREIGN_SHARE_MAX, disturbance
from wattfold.coordinator.figures.run_record import PolicyResult

F = TypeVar("F", bound=Callable[..., Any])
_INTERRUPTED = 130


def output_options(command: F) -> F:
    """Add the folder of the results and the amount of work."""
    for option in (
        click.option(
            "--scale",
            type=click.FloatRange(0.05, 20),
            default=1.0,
            show_default=True,
            help="Amount of work of each job.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            default=Path("demo-out"),
            show_default=True,
            metavar="DIR",
            help="Folder for results, table and picture.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def interruptible(console: Console, *errors: type[Exception]) -> Iterator[runner.Interruption]:
    """Run the jobs in the block, which Ctrl-C and SIGTERM end. Errors become one line."""
    interruption = runner.Interruption()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interruption.ask())
    try:
        yield interruption
    except KeyboardInterrupt:
        console.print("\nInterrupted: everything was stopped.")
        sys.exit(_INTERRUPTED)
    except errors as error:
        console.print(f"[red]demo: {error}[/]", soft_wrap=True)
        sys.exit(1)


def warn_if_disturbed(console: Console, results: Sequence[PolicyResult]) -> None:
    """Say so if other processes used too much CPU time during a run."""
    share = max(one.observed.foreign_share for one in results)
    if share > FOREIGN_SHARE_MAX:
        console.print(f"[yellow]{disturbance(share)}[/]")
