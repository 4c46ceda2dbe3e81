"""`cancel`, `hold`, `release`: commands that control submitted jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError, UnreachableError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.formatting import job_state
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.client import CoordinatorClient

Action: TypeAlias = "Callable[[CoordinatorClient, str], str]"
"""Does it to one job and says in a word what became of it."""


Order: TypeAlias = "Callable[[CoordinatorClient, Sequence[str]], list[str]]"
"""In which order the jobs are taken."""


def _cancel(client: CoordinatorClient, job_id: str, force: bool) -> str:
    answer = client.cancel(job_id, force)
    # An ended job is not cancelled again; a running one ends a moment later.
    if answer.state != pb.JOB_STATE_ENDING:
        return job_state(answer.state)
    return f"cancelling: it {answer.message}" if answer.message else "cancelling"


def _hold(client: CoordinatorClient, job_id: str) -> str:
    client.hold(job_id)
    return "held"


def _release(client: CoordinatorClient, job_id: str) -> str:
    client.release(job_id)
    return "released"


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--force",
    is_flag=True,
    help="Cancel jobs even if their nodes are unreachable. Processes on these nodes are lost.",
)
@session_command
def cancel(session: Session, job_ids: Sequence[str], force: bool) -> None:
    """Cancel waiting or running jobs.

    Waiting jobs are cancelled first, so that none of them starts on the resources of the others.
    """
    for_each(session, job_ids, partial(_cancel, force=force), order=_waiting_first)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def hold(session: Session, job_ids: Sequence[str]) -> None:
    """Hold waiting jobs, so that they do not start."""
    for_each(session, job_ids, _hold)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def release(session: Session, job_ids: Sequence[str]) -> None:
    """Release held jobs, so that they may start."""
    for_each(session, job_ids, _release)


def _waiting_first(client: CoordinatorClient, job_ids: Sequence[str]) -> list[str]:
    """Return the jobs with the waiting jobs first, so that none starts on released resources."""
    waiting = (pb.JOB_STATE_HELD, pb.JOB_STATE_PENDING)
    waits = {job.job_id for job in _known(client, job_ids) if job.state in waiting}
    return sorted(job_ids, key=lambda job_id: job_id not in waits)


def _known(client: CoordinatorClient, job_ids: Sequence[str]) -> list[pb.Job]:
    """Return the existing jobs. Unknown jobs are reported when they are handled."""
    if len(job_ids) < 2:
        return []
    try:
        return list(client.list_jobs(job_ids, include_ended=True, limit=len(job_ids)).jobs)
    except NotFoundError:
        half = len(job_ids) // 2
        return _known(client, job_ids[:half]) + _known(client, job_ids[half:])


def _as_given(_client: CoordinatorClient, job_ids: Sequence[str]) -> list[str]:
    return list(job_ids)


def for_each(
    session: Session, job_ids: Sequence[str], action: Action, order: Order = _as_given
) -> None:
    """Does it to each job and says what became of it.

    One refusal does not keep the others from being tried; the first one gives the exit code.
    """
    results: list[dict[str, Any]] = []
    code = ExitCode.OK
    with session.connect() as client:
        for job_id in order(client, list(dict.fromkeys(job_ids))):
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
