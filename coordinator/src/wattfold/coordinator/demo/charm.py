"""Measure resizes of Charm++ programs, and write the measurements to a file.

`wattfold reproduce equipartition --all` calls this module and reports the results. Measurements are
stored in parts in the folder --work, so that an interrupted run resumes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo.charm_site import program_file
from wattfold.coordinator.demo.charm_trials import FULL, QUICK, Trials
from wattfold.coordinator.demo.runner import Interruption, RunError
from wattfold.coordinator.demo.site import SiteError
from wattfold.simulator.papers.equipartition.measured import store

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
    "--quick", is_flag=True, help="Run a short version of all trials, not the evaluation."
)
def main(out: Path, work: Path, quick: bool) -> None:
    """Runs the trials in the folder --work, and writes the figures to --out."""
    interruption = Interruption()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interruption.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        program_file()
        extent = QUICK if quick else FULL
        trials = Trials(extent, work, interruption, lambda line: click.echo(line, err=True))
        store(trials.all(quick=quick), out)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (CliError, RunError, SiteError, OSError, ValueError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_INTERRUPTED if interruption.asked else 1)


if __name__ == "__main__":
    main()
