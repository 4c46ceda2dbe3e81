"""`cancel`, `hold`, `release`: steering jobs that were submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from wattfold.coordinator.cli.client import CoordinatorClient
from wattfold.coordinator.cli.errors import CliError, UnreachableError
from wattfold.coordinator.cli.exit_codes import ExitCode
from wattfold.coordinator.cli.formatting import job_state
from wattfold.coordinator.cli.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb

Action = Callable[[CoordinatorClient, str], str]
"""Does it to one job and says in a word what became of it."""


def _cancel(client: CoordinatorClient, job_id: str) -> str:
    state = client.cancel(job_id).state
    # An ended job is not cancelled again; a running one ends a moment later.
    return "cancelling" if state == pb.JOB_STATE_ENDING else job_state(state)


def _hold(client: CoordinatorClient, job_id: str) -> str:
    client.hold(job_id)
    return "held"


def _release(client: CoordinatorClient, job_id: str) -> str:
    client.release(job_id)
    return "released"


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def cancel(session: Session, job_ids: Sequence[str]) -> None:
    """Cancel jobs, waiting or running."""
    _for_each(session, job_ids, _cancel)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def hold(session: Session, job_ids: Sequence[str]) -> None:
    """Keep waiting jobs from starting."""
    _for_each(session, job_ids, _hold)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def release(session: Session, job_ids: Sequence[str]) -> None:
    """Let held jobs start."""
    _for_each(session, job_ids, _release)


def _for_each(session: Session, job_ids: Sequence[str], action: Action) -> None:
    """One refusal does not keep the others from being tried; the first one gives the exit code."""
    results: list[dict[str, Any]] = []
    code = ExitCode.OK
    with session.connect() as client:
        for job_id in dict.fromkeys(job_ids):
            try:
                result, error = action(client, job_id), None
            except UnreachableError:
                raise
            except CliError as failure:
                result, error = "", str(failure)
                code = code or failure.exit_code
                click.echo(f"wattfold: {job_id}: {error}", err=True)
            results.append({"job_id": job_id, "result": result or None, "error": error})
            if error is None and not session.json:
                click.echo(f"{job_id} {result}")
    if session.json:
        session.print_json({"jobs": results})
    click.get_current_context().exit(code)
