"""`shell`: a shell inside of a running job, on one of its nodes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

import click

from wattfold.contract.step_protocol import StepRequest
from wattfold.coordinator.cli.rsh.rsh import EXIT_OWN
from wattfold.coordinator.cli.rsh.rsh_session import RshError, StepHostAt, Terminal, run_remote
from wattfold.coordinator.cli.shared.connection.session import Session, pass_session

_CARRIED = ("TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
"""Variables that describe the terminal and the language of the user."""


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--node",
    "node_id",
    default="",
    metavar="NODE",
    help="Node of the job. Default: its first node.",
)
@pass_session
def shell(session: Session, job_id: str, command: Sequence[str], node_id: str) -> None:
    """Open a shell inside of a running job.

    The shell runs under your account, on the cores and in the control groups of the job, with the
    environment and in the folder of its program. It counts in the CPU time and the energy of the
    job, and it ends with the job. Only the account of the job may open it.

    With COMMAND, that command runs instead. If standard input and output are terminals, the shell
    has a terminal: Ctrl-C and Ctrl-Z act inside of the job. Otherwise input and output are pipes.
    The exit status is that of the shell, or 255 if the connection was lost.

    For example: wattfold shell 17
    """
    if session.json:
        raise click.UsageError("shell prints the output of a shell")
    with session.connect() as client:
        door = client.open_shell(job_id, node_id)
    host = StepHostAt(address=door.steps_address, node=door.node_id, job=job_id, key=door.step_key)
    env = {name: os.environ[name] for name in _CARRIED if name in os.environ}
    request = StepRequest(
        command=os.fsencode(shlex.join(command)),
        cwd=b"",
        env=tuple((os.fsencode(name), os.fsencode(value)) for name, value in env.items()),
    )
    terminal = Terminal() if sys.stdin.isatty() and sys.stdout.isatty() else None
    try:
        code = run_remote(request, host, terminal=terminal)
    except RshError as error:
        click.echo(f"wattfold: job {job_id}: {error}; see `wattfold show`", err=True)
        code = EXIT_OWN
    click.get_current_context().exit(code)
