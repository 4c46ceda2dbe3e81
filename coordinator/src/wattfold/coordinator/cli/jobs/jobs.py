"""`show`, `explain`: commands that read one job."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time

import click

from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import NotFoundError
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.native_text import native_text


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--env",
    "environment",
    is_flag=True,
    help="Show the environment of the job instead. Only for the owner and operators, while the "
    "job may still be started.",
)
@session_command
def show(session: Session, job_id: str, environment: bool) -> None:
    r"""Show all fields of a job except its environment.

    The environment may contain secrets; --env shows it. Users see only the public fields of jobs of
    other accounts. Operators see all fields. Bytes outside of UTF-8 are shown as in \xff; --env
    without --json prints them as they are.
    """
    if environment:
        _show_environment(session, job_id)
        return
    with session.connect() as client:
        answer = client.list_jobs([job_id], include_ended=True, details=True)
    if not answer.jobs:
        raise NotFoundError(f"no job {job_id!r}; `wattfold queue --all` lists all jobs")
    if session.json:
        session.print_json(numbered("show", as_dict(answer.jobs[0])))
    else:
        from wattfold.coordinator.cli.jobs.lists.job_sheet import job_sheet

        session.print(job_sheet(answer.jobs[0], now_s=time.time()))


def _show_environment(session: Session, job_id: str) -> None:
    with session.connect() as client:
        env = client.environment(job_id)
    if session.json:
        shown = {shown_text(name): shown_text(value) for name, value in env.items()}
        session.print_json({"job_id": job_id, "env": shown})
        return
    for name, value in sorted(env.items()):
        click.echo(os.fsencode(native_text(f"{name}={value}")))


@click.command()
@click.argument("job_id", metavar="JOB")
@session_command
def explain(session: Session, job_id: str) -> None:
    """Explain the size and the power of a job, or why it waits."""
    with session.connect() as client:
        answer = client.explain(job_id)
    if session.json:
        session.print_json(as_dict(answer))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    click.echo(textwrap.fill(answer.summary, width))
    for line in answer.lines:
        click.echo(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))
