"""`signal`: a signal to the processes of jobs."""

from __future__ import annotations

import signal as numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.jobs.control import for_each
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import ANY_SIGNAL

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient


@click.command(name="signal")
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.argument("number", metavar="SIGNAL", type=ANY_SIGNAL)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Signal the job only if this is its current attempt. Default: any attempt.",
)
@session_command
def signal(session: Session, job_ids: Sequence[str], number: int, attempt: int | None) -> None:
    """Send a signal to the processes of running jobs.

    SIGNAL is a name such as USR1 or SIGUSR1, or a number. The process group of the command gets
    it on every node of the job, as with Ctrl-C in a terminal. A launcher (--own-launcher) gets it
    on the first node only, and passes it on. Nothing follows the signal: TERM is not followed by
    KILL. Use `wattfold cancel` to end a job for certain, and `wattfold suspend` to stop it.

    For example: wattfold signal 17 USR1
    """

    def send(client: CoordinatorClient, job_id: str) -> str:
        nodes = client.signal(job_id, number, attempt or 0)
        return f"{signal_name(number)} sent on {', '.join(nodes)}"

    for_each(session, job_ids, send)


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if it has none."""
    try:
        return numbers.Signals(number).name
    except ValueError:
        return f"signal {number}"
