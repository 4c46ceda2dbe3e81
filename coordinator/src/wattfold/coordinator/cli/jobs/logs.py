"""`logs`: the output of a job, also while it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.os_text import os_bytes, shown_text
from wattfold.coordinator.cli.jobs.lists.waiting import JobWaiter, describe
from wattfold.coordinator.cli.jobs.output_stream import (
    STANDARD_ERROR,
    STANDARD_OUTPUT,
    JobOutputs,
    check_access,
    invisible,
)
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

_WAITING = (pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print what the job writes until it has ended. Ctrl-C ends only this command.",
)
@click.option("--err", "errors", is_flag=True, help="Print standard error instead of output.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print only the file of this process, counted from 0 over the nodes of the job. Default: "
    "the files of all processes.",
)
@session_command
def logs(session: Session, job_id: str, follow: bool, errors: bool, rank: int | None) -> None:
    """Print the output of a job.

    The command reads the output files with your rights. They must be visible on this machine, so
    their directory must be on this host or on a shared file system. Otherwise the command names
    node and path. A job on several nodes has a file for each node; a line on standard error names
    the file before its text.

    A requeued job appends to its files. A file that was truncated or replaced is printed from its
    beginning. With --json, the command lists the files without their contents.

    For example: wattfold logs -f 17
    """
    if session.json and follow:
        raise click.UsageError("--json lists the files of a job and cannot follow them")
    outputs = JobOutputs((STANDARD_ERROR if errors else STANDARD_OUTPUT,), rank)
    with session.connect() as client:
        job = _job(client, job_id)
        if session.json:
            session.print_json({"job_id": job_id, "files": [_described(o) for o in job.outputs]})
            return
        if follow and job.state not in f.ENDED_STATES:
            job = _followed(client, job_id, outputs)
    outputs.meet(job)
    outputs.show()
    _check(job, outputs, rank)


def _job(client: CoordinatorClient, job_id: str) -> pb.Job:
    found = client.list_jobs([job_id], include_ended=True).jobs
    if not found:
        raise NotFoundError(f"no job {job_id!r}; `wattfold queue --all` lists all jobs")
    check_access(found[0])
    if found[0].HasField("array"):
        first = found[0].array.indices.partition(",")[0].partition("-")[0]
        raise CliError(
            f"job {job_id} is an array, and each task has its own output; name one of its tasks, "
            f"such as {job_id}_{first}"
        )
    return found[0]


def _followed(client: CoordinatorClient, job_id: str, outputs: JobOutputs) -> pb.Job:
    def notice(line: str) -> None:
        click.echo(f"{job_id} {line}", err=True)

    job = JobWaiter(client, job_id, notice, output=outputs).wait()
    assert job is not None, "nothing stops this wait"
    return job


def _check(job: pb.Job, outputs: JobOutputs, rank: int | None) -> None:
    """Raise CliError if a file could not be shown."""
    if outputs.missing:
        raise CliError("; ".join(invisible(job.job_id, file) for file in outputs.missing))
    if outputs.files:
        return
    if job.state in _WAITING:
        raise CliError(
            f"job {job.job_id} is {describe(job)} and has no output yet; wait for it with "
            f"`wattfold logs -f {job.job_id}`"
        )
    if job.outputs:
        raise CliError(f"job {job.job_id} has no rank {rank}; it has 0..{len(job.outputs) - 1}")
    if job.shares:
        raise CliError(
            "the coordinator has an earlier version, which does not report output files; "
            f"`wattfold show {job.job_id}` names them"
        )
    raise CliError(f"job {job.job_id} never ran, so it has no output: it is {describe(job)}")


def _described(output: pb.JobOutput) -> dict[str, Any]:
    return {
        "node_id": output.node_id,
        "rank": output.rank,
        "stdout": _file(output.stdout_path),
        "stderr": _file(output.stderr_path),
    }


def _file(path: str) -> dict[str, Any]:
    try:
        size = os.stat(os_bytes(path)).st_size
    except OSError:
        return {"path": shown_text(path), "visible": False, "bytes": None}
    return {"path": shown_text(path), "visible": True, "bytes": size}
