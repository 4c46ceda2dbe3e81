"""`modify`: other values for a job that was submitted."""

from __future__ import annotations

import time
from typing import Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import (
    SIZE_RANGE,
    SizeRange,
    parse_duration_ns,
    parse_time_s,
)
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb

NONE = "none"
LIMIT_NS = Parsed("duration", lambda text: 0 if text == NONE else parse_duration_ns(text))
DUE_S = Parsed("time", lambda text: 0.0 if text == NONE else parse_time_s(text, time.time()))


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--time",
    "limit_ns",
    type=LIMIT_NS,
    metavar="DURATION|none",
    help="Time limit, such as 90s, 1h30m or HH:MM:SS. Owners may raise it only while the job "
    "waits, up to the maximum of its queue. An estimate above it becomes the limit.",
)
@click.option(
    "--priority",
    type=click.FloatRange(0, min_open=True),
    metavar="NUMBER",
    help="Priority, as for `wattfold submit`. Owners may only lower it.",
)
@click.option(
    "--due",
    "due_at_s",
    type=DUE_S,
    metavar="TIME|DURATION|none",
    help="Due date, such as 2027-01-31T18:00, or 2h for two hours from now.",
)
@click.option("--name", metavar="NAME", help="Name of the job, at most 100 printable characters.")
@click.option(
    "--size",
    type=SIZE_RANGE,
    metavar="MIN[-MAX]",
    help="Number of cores, nodes or units, or a range, of a waiting job. For running jobs, see "
    "`wattfold resize`.",
)
@session_command
def modify(session: Session, job_id: str, size: SizeRange | None, **values: Any) -> None:
    """Change limit, priority, due date, name or size of a job.

    The command makes all changes or none. Only the owner of the job and operators may change it.
    Owners may shorten a time limit and lower a priority at any time. Only operators may raise the
    priority, or the time limit of a running job. A time limit that overlaps a reservation of
    other jobs is refused.

    For example: wattfold modify 17 --time 2h
    """
    given = {name: value for name, value in values.items() if value is not None}
    if size is not None:
        given |= {"size_min": size.least, "size_max": size.greatest}
    if not given:
        raise click.UsageError(
            "nothing to change; give --time, --priority, --due, --name or --size"
        )
    with session.connect() as client:
        changes = client.modify(pb.ModifyJobRequest(job_id=job_id, **given))
    if session.json:
        session.print_json({"job_id": job_id, "changes": [as_dict(change) for change in changes]})
        return
    for change in changes:
        click.echo(f"{job_id} {change.field} {change.before} -> {change.after}")
    if not changes:
        click.echo(f"{job_id} already has these values")
