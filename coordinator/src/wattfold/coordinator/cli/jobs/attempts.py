"""`requeue`, `resize`, `suspend`, `resume`: actions on jobs between their start and their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from wattfold.coordinator.cli.jobs.control import for_each, for_selected
from wattfold.coordinator.cli.jobs.selection import Selection, selection_options
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, SIGNAL
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient


REQUEUED_STATES = (pb.JOB_STATE_STARTING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_SUSPENDED)


@click.command()
@selection_options
@click.option(
    "--signal",
    "number",
    type=SIGNAL,
    metavar="NAME",
    help="Signal that asks the program to write its snapshot, such as USR1. Default: the signal "
    "of the submission, or else TERM.",
)
@click.option(
    "--grace",
    "grace_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Time for writing the snapshot, such as 30s. Default: the grace time of the submission, "
    "or else of the site.",
)
@click.option(
    "--hold",
    is_flag=True,
    help="Hold the jobs after their attempt has ended, until `wattfold release`.",
)
@click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="Reason, shown with the attempt by `wattfold show`.",
)
@session_command
def requeue(
    session: Session,
    number: int | None,
    grace_ns: int | None,
    hold: bool,
    reason: str,
    **selected: Any,
) -> None:
    """End running jobs and requeue them at their place.

    Each job first gets time to write a snapshot. Only restartable jobs can be requeued. A job that
    failed, timed out or was lost after it saved a snapshot resumes from it.

    The options --user, --name, --state and --older-than select jobs that match all of them. By
    default, they select starting, running and suspended jobs.
    """

    def one(client: CoordinatorClient, job_id: str) -> str:
        request = pb.RequeueRequest(
            job_id=job_id, signal=number or 0, grace_ns=grace_ns or 0, hold=hold, reason=reason
        )
        client.requeue(request)
        return "requeuing, then held" if hold else "requeuing"

    for_selected(session, Selection(**selected), "requeue", REQUEUED_STATES, one)


AUTO = "auto"


class JobSize(click.ParamType[int]):
    """Number of nodes or cores, or 0 for `auto`."""

    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Convert to a size; 0 = the policy chooses."""
        if value == AUTO:
            return 0
        try:
            size = int(value)
        except ValueError:
            size = 0
        if not 0 < size < 1 << 32:
            self.fail(
                f"{value!r} is not a size; give a number of nodes or cores, or auto", param, ctx
            )
        return size

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete `auto`."""
        del ctx, param
        return [CompletionItem(AUTO)] if AUTO.startswith(incomplete) else []


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("size", metavar="SIZE|auto", type=JobSize())
@session_command
def resize(session: Session, job_id: str, size: int) -> None:
    """Set the size of a job, in nodes or cores.

    The size stays fixed until the next `wattfold resize`; with `auto`, the policy chooses again. A
    job of mode restart saves a snapshot and restarts at the new size. Other jobs change their
    cores.
    """
    with session.connect() as client:
        answer = client.resize(job_id, size)
    if session.json:
        session.print_json({"job_id": job_id, "size_ordered": size, "size": answer.size})
    elif not size:
        click.echo(f"{job_id}: the policy chooses the size again")
    elif answer.size == size:
        click.echo(f"{job_id} keeps its size of {size}")
    elif answer.size:
        click.echo(f"{job_id} {answer.size} -> {size}")
    else:
        click.echo(f"{job_id} will start with {size}")


def _suspend(client: CoordinatorClient, job_id: str) -> str:
    client.suspend(job_id)
    return "suspended"


def _resume(client: CoordinatorClient, job_id: str) -> str:
    client.resume(job_id)
    return "resumed"


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def suspend(session: Session, job_ids: Sequence[str]) -> None:
    """Suspend running jobs by stopping their processes.

    Suspended jobs keep their cores, their memory and their power.
    """
    for_each(session, job_ids, _suspend)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def resume(session: Session, job_ids: Sequence[str]) -> None:
    """Resume suspended jobs."""
    for_each(session, job_ids, _resume)
