"""`requeue`, `resize`, `suspend`, `resume`: what may come between a start and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from wattfold.coordinator.cli.jobs.control import for_each
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, SIGNAL
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.client import CoordinatorClient


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--signal",
    "number",
    type=SIGNAL,
    metavar="NAME",
    help="What tells it to write its snapshot. Default: that of its submission, else TERM.",
)
@click.option(
    "--grace",
    "grace_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="How long it has for that. Default: that of its submission, else that of the site.",
)
@click.option("--hold", is_flag=True, help="Hold it then, until `wattfold release`.")
@click.option("--reason", default="", metavar="TEXT", help="Shown with the attempt.")
@session_command
def requeue(
    session: Session,
    job_ids: Sequence[str],
    number: int | None,
    grace_ns: int | None,
    hold: bool,
    reason: str,
) -> None:
    """End running jobs, after time to write a snapshot, and queue them again at their place."""

    def one(client: CoordinatorClient, job_id: str) -> str:
        request = pb.RequeueRequest(
            job_id=job_id, signal=number or 0, grace_ns=grace_ns or 0, hold=hold, reason=reason
        )
        client.requeue(request)
        return "requeuing, then held" if hold else "requeuing"

    for_each(session, job_ids, one)


AUTO = "auto"


class JobSize(click.ParamType[int]):
    """A number of nodes or cores, or `auto`, which is 0."""

    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The size; 0 = as the policy chooses."""
        if value == AUTO:
            return 0
        try:
            size = int(value)
        except ValueError:
            size = 0
        if not 0 < size < 1 << 32:
            self.fail(f"{value!r} is no size: give a number of nodes or cores, or auto", param, ctx)
        return size

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The one word there is."""
        del ctx, param
        return [CompletionItem(AUTO)] if AUTO.startswith(incomplete) else []


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("size", metavar="SIZE|auto", type=JobSize())
@session_command
def resize(session: Session, job_id: str, size: int) -> None:
    """Give a job one size, in nodes or cores, for as long as it is not given another one.

    The policy keeps to it. A job of mode restart saves and goes on at that size, others change
    their cores. auto: the policy chooses again.
    """
    with session.connect() as client:
        answer = client.resize(job_id, size)
    if session.json:
        session.print_json({"job_id": job_id, "size_ordered": size, "size": answer.size})
    elif not size:
        click.echo(f"{job_id} is sized by the policy again")
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
    """Stop the processes of running jobs; their cores and their power stay their own."""
    for_each(session, job_ids, _suspend)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@session_command
def resume(session: Session, job_ids: Sequence[str]) -> None:
    """Let suspended jobs go on."""
    for_each(session, job_ids, _resume)
