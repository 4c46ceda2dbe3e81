"""Submission of the job of a command line, for `submit` and `run`, and the wait for its end."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.jobs.lists.waiting import JobWaiter, exit_code_of
from wattfold.coordinator.cli.jobs.scripts.script_command import ScriptedSubmission, submission_of
from wattfold.coordinator.cli.jobs.submission import job_request as request
from wattfold.coordinator.cli.jobs.submission.charm_command import charm_command
from wattfold.coordinator.cli.jobs.submission.mode_choice import choose_mode
from wattfold.coordinator.cli.jobs.submission.start_options import After, dependencies
from wattfold.coordinator.cli.jobs.submission.submitted_spec import spec_of
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.native_text import message_text
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
    from wattfold.coordinator.cli.shared.connection.session import Session


def submitted(client: CoordinatorClient, **options: Any) -> str:
    """Submit the job of the parsed command line and return its ID."""
    answer = client.submitted(request_of(click.get_current_context(), client, **options))
    if answer.warning:
        click.echo(f"wattfold: {answer.warning}", err=True)
    return answer.job_id


def request_of(
    context: click.Context, client: CoordinatorClient, **options: Any
) -> pb.SubmitRequest:
    """Return the request for the job of a parsed command line."""
    submission = _submission(submission_of(context), **options)
    choice = choose_mode(options["mode"], submission.spec, client)
    submission.spec.mode, submission.spec.mode_source = choice.mode, choice.source
    if choice.warning:
        click.echo(f"wattfold: {choice.warning}", err=True)
    if choice.mode in (request.MODES["map"], request.MODES["rebuild"]):
        _start_as_charm(submission.spec, checked=not options["no_check"])
    return submission


def _start_as_charm(spec: pb.JobSpec, *, checked: bool) -> None:
    found = charm_command(spec, checked=checked)
    spec.argv[:] = map(message_text, found.argv)
    if found.warning:
        click.echo(f"wattfold: {found.warning}", err=True)


def _submission(
    script: ScriptedSubmission,
    *,
    hold: bool,
    after: Sequence[After],
    begin_at_s: float | None,
    array: str = "",
    idempotency_key: str,
    no_check: bool,
    **options: Any,
) -> pb.SubmitRequest:
    spec = spec_of(script.caller(os.environ), **options)
    if not no_check:
        command = request.local_command(spec)
        request.check_command(script.programs(command.argv), command.cwd, command.env)
    script.add_variables(spec)
    # A unique key makes a retry of the same call, by gRPC or a proxy, harmless.
    key = idempotency_key or uuid.uuid4().hex
    return pb.SubmitRequest(
        spec=spec,
        idempotency_key=key,
        held=hold,
        after=dependencies(after),
        begin_at_s=begin_at_s or 0.0,
        array=array,
    )


def follow(session: Session, client: CoordinatorClient, job_id: str) -> None:
    """Show the course of the job, and end the command with the exit code of the job."""
    context = click.get_current_context()

    def notice(line: str) -> None:
        click.echo(f"{job_id} {line}", err=True)

    if not session.json:
        click.echo(job_id)
    try:
        job = JobWaiter(client, job_id, notice).wait()
    except KeyboardInterrupt:
        detached(job_id)
        context.exit(ExitCode.INTERRUPTED)
    assert job is not None, "nothing else stops this wait"
    if session.json:
        session.print_json(as_dict(job))
    context.exit(exit_code_of(job))


def detached(job_id: str) -> None:
    """Say that the command ends and the job does not."""
    click.echo(
        f"wattfold: detached, the job continues; see `wattfold show {job_id}`, or stop it with "
        f"`wattfold cancel {job_id}`",
        err=True,
    )
