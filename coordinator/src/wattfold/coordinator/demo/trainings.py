"""Run the small cluster of ANDREAS live on emulated nodes and GPUs, and write the results.

`wattfold reproduce andreas cluster` calls this module and reports the results.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo.runner import Interruption, RunError
from wattfold.coordinator.demo.site import SiteError
from wattfold.coordinator.demo.training_trial import TrainingTrial
from wattfold.simulator.papers.andreas.cluster import TABLE_V, store

_INTERRUPTED = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File for the measurements.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for working files.",
)
@click.option(
    "--scale", type=float, required=True, help="Seconds of the paper per second of the run."
)
@click.option(
    "--jobs",
    type=click.IntRange(1, len(TABLE_V)),
    default=len(TABLE_V),
    show_default=True,
    help="Number of jobs of Table V to run.",
)
def main(out: Path, work: Path, scale: float, jobs: int) -> None:
    """Run the first JOBS jobs in the folder --work, and write the figures to --out."""
    interruption = Interruption()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interruption.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        trial = TrainingTrial(
            TABLE_V[:jobs], scale, work, interruption, lambda line: click.echo(line, err=True)
        )
        store(trial.run(), out)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (CliError, RunError, SiteError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_INTERRUPTED if interruption.asked else 1)


if __name__ == "__main__":
    main()
