"""`cancel`, `hold`, `release`: commands that control submitted jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from wattfold.coordinator.cli.jobs.selection import (
    Selection,
    confirm,
    selection_options,
    show_selected,
    tell_count,
)
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError, UnreachableError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.texts.formatting import job_state
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

Action: TypeAlias = "Callable[[CoordinatorClient, str], str]"
"""Acts on a job and returns its new state in a word."""

WAITING_STATES = (pb.JOB_STATE_HELD, pb.JOB_STATE_PENDING)
CANCELLED_STATES = (
    *WAITING_STATES,
    pb.JOB_STATE_STARTING,
    pb.JOB_STATE_RUNNING,
    pb.JOB_STATE_SUSPENDED,
)


def _cancel(client: CoordinatorClient, job_id: str, force: bool) -> str:
    answer = client.cancel(job_id, force)
    # An ended job is not cancelled again; a running job ends a moment later.
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
@selection_options
@click.option(
    "--force",
    is_flag=True,
    help="Cancel jobs even if their nodes are unreachable. Processes on these nodes are lost.",
)
@session_command
def cancel(session: Session, force: bool, **selected: Any) -> None:
    """Cancel waiting or running jobs.

    Waiting jobs are cancelled first, so that none of them starts on the resources of the others.

    The options --user, --name, --state and --older-than select jobs that match all of them. By
    default, they select jobs that have not ended and are not ending.
    """
    action = partial(_cancel, force=force)
    selection = Selection(**selected)
    for_selected(session, selection, "cancel", CANCELLED_STATES, action, waiting_first=True)


@click.command()
@selection_options
@session_command
def hold(session: Session, **selected: Any) -> None:
    """Hold waiting jobs, so that they do not start.

    The options --user, --name, --state and --older-than select jobs that match all of them. By
    default, they select pending jobs.
    """
    for_selected(session, Selection(**selected), "hold", (pb.JOB_STATE_PENDING,), _hold)


@click.command()
@selection_options
@session_command
def release(session: Session, **selected: Any) -> None:
    """Release held jobs, so that they may start.

    The options --user, --name, --state and --older-than select jobs that match all of them. By
    default, they select held jobs.
    """
    for_selected(session, Selection(**selected), "release", (pb.JOB_STATE_HELD,), _release)


def for_selected(
    session: Session,
    selection: Selection,
    verb: str,
    default: Sequence[pb.JobState],
    action: Action,
    waiting_first: bool = False,
) -> None:
    """Act on each selected job and report the result.

    Jobs that are selected by a property are counted first, and many jobs must be confirmed.
    """
    selection.check()
    with session.connect() as client:
        if selection.by_properties or selection.dry_run:
            jobs = selection.jobs(client, default)
            tell_count(jobs)
            if selection.dry_run:
                show_selected(session, jobs)
                return
            if not selection.yes:
                confirm(verb, len(jobs))
            job_ids = [job.job_id for job in jobs]
        else:
            job_ids = list(dict.fromkeys(selection.job_ids))
            jobs = _known(client, job_ids) if waiting_first else []
        if waiting_first:
            waiting = {job.job_id for job in jobs if job.state in WAITING_STATES}
            job_ids.sort(key=lambda job_id: job_id not in waiting)
        _act(session, client, job_ids, action)


def _known(client: CoordinatorClient, job_ids: Sequence[str]) -> list[pb.Job]:
    """Return the existing jobs. Unknown jobs are reported when they are handled."""
    if len(job_ids) < 2:
        return []
    try:
        return list(client.list_jobs(job_ids, include_ended=True, limit=len(job_ids)).jobs)
    except NotFoundError:
        half = len(job_ids) // 2
        return _known(client, job_ids[:half]) + _known(client, job_ids[half:])


def for_each(session: Session, job_ids: Sequence[str], action: Action) -> None:
    """Act on each job and report the result."""
    with session.connect() as client:
        _act(session, client, list(dict.fromkeys(job_ids)), action)


def _act(
    session: Session, client: CoordinatorClient, job_ids: Sequence[str], action: Action
) -> None:
    """Act on each job, even after refusals; the first refusal gives the exit code."""
    results: list[dict[str, Any]] = []
    code = ExitCode.OK
    for job_id in job_ids:
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
