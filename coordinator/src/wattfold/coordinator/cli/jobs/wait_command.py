"""`wait`: wait for the ends of submitted jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from wattfold.coordinator.cli.jobs.lists.waiting import JobsWaiter, exit_code_of
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb

NAMED_MAX = 10


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option("--any", "any_end", is_flag=True, help="Wait only for the first end.")
@click.option(
    "--timeout",
    "timeout_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Time limit of the wait, such as 90s or 2h. The jobs continue. Default: no limit.",
)
@session_command
def wait(session: Session, job_ids: Sequence[str], any_end: bool, timeout_ns: int | None) -> None:
    """Wait for the ends of jobs, and exit with their exit code.

    The exit code is 0 if all jobs ended with success, or else that of the first of these jobs on
    the command line that did not. With --any, it is that of the first job that ended. After
    --timeout, it is 9. Ctrl-C ends the wait, and the jobs continue.
    """
    context = click.get_current_context()
    names = list(dict.fromkeys(job_ids))

    def notice(job_id: str, line: str) -> None:
        click.echo(f"{job_id} {line}", err=True)

    until_s = time.monotonic() + timeout_ns / 1e9 if timeout_ns else None
    with session.connect() as client:
        waiter = JobsWaiter(
            client=client, job_ids=names, notice=notice, any_end=any_end, until_s=until_s
        )
        try:
            ended = waiter.wait()
        except KeyboardInterrupt:
            click.echo("wattfold: detached, the jobs continue", err=True)
            context.exit(ExitCode.INTERRUPTED)
    if not any_end:
        ended.sort(key=lambda job: names.index(job.job_id))
    if session.json:
        session.print_json(as_dict(pb.ListJobsResponse(jobs=ended, total=len(ended))))
    left = [job_id for job_id in names if job_id not in {job.job_id for job in ended}]
    if left and not (any_end and ended):
        assert timeout_ns is not None, "nothing else ends this wait"
        more = f" and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else ""
        click.echo(
            f"wattfold: timeout after {f.duration(timeout_ns / 1e9)}, these jobs continue: "
            f"{', '.join(left[:NAMED_MAX])}{more}",
            err=True,
        )
        context.exit(ExitCode.TIMED_OUT)
    codes = [exit_code_of(job) for job in ended]
    context.exit(codes[0] if any_end else next(filter(None, codes), ExitCode.OK))
