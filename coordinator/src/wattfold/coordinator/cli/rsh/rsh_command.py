"""`rsh` as a command of `wattfold`; launchers use `wattfold-rsh`, which starts faster."""

from __future__ import annotations

import click

from wattfold.coordinator.cli.rsh import rsh as remote_shell


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS OF SSH]",
)
@click.argument("arguments", metavar="HOST COMMAND...", nargs=-1, type=click.UNPROCESSED)
def rsh(arguments: tuple[str, ...]) -> None:
    """Run a command on another node of the same job.

    For use inside a job submitted with --own-launcher. Launchers such as mpirun, mpiexec and
    charmrun find it through their environment and use it in place of ssh. Exits with the exit code
    of the command, or with 255 if the command could not be run.
    """
    remote_shell.main(arguments)
