"""Options of `submit` for the start, the queue and the mail of a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from wattfold.contract.index_set import parse_array
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import BEGIN_S
from wattfold.v1 import coordinator_pb2 as pb

MAIL_EVENTS = {
    "begin": pb.MAIL_EVENT_BEGIN,
    "end": pb.MAIL_EVENT_END,
    "fail": pb.MAIL_EVENT_FAIL,
    "requeue": pb.MAIL_EVENT_REQUEUE,
}
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """Jobs that must have ended, with ``success`` in success."""

    job_ids: tuple[str, ...]
    success: bool


def array_text(text: str) -> str:
    """Return the indices of an array as they are given. Raises ValueError."""
    if text:
        parse_array(text)
    return text


def parse_after(text: str) -> After:
    """Parse `ok:12,13` or `any:12`. Raises ValueError."""
    kind, colon, rest = text.partition(":")
    job_ids = tuple(dict.fromkeys(part.strip() for part in rest.split(",")))
    valid = all(re.fullmatch(r"[\w.-]{1,64}", job_id) for job_id in job_ids)
    if kind not in ("ok", "any") or not colon or not valid:
        raise ValueError(
            f"not a dependency: {text!r}; expected ok:ID[,ID] (success) or any:ID[,ID] (any end), "
            "for example ok:12"
        )
    return After(job_ids=job_ids, success=kind == "ok")


def dependencies(given: Iterable[After]) -> Iterable[pb.JobDependency]:
    """Return the jobs of the options `--after`."""
    for one in given:
        for job_id in one.job_ids:
            yield pb.JobDependency(job_id=job_id, success=one.success)


def parse_mail(text: str) -> tuple[pb.MailEvent, ...]:
    """Parse `begin,end`. Raises ValueError."""
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in MAIL_EVENTS]
    if unknown:
        raise ValueError(f"not an event: {unknown[0]!r}; choose from {', '.join(MAIL_EVENTS)}")
    return tuple(dict.fromkeys(MAIL_EVENTS[word] for word in words))


def start_options(command: F) -> F:
    """Add the options to `submit`."""
    for option in (
        click.option("--hold", is_flag=True, help="Hold the job until `wattfold release`."),
        click.option(
            "--begin",
            "begin_at_s",
            type=BEGIN_S,
            metavar="TIME",
            help="Earliest start of the job: now+1h, 16:00 (today or tomorrow), or "
            "2027-01-31T08:00. Plans do not contain the job before.",
        ),
        click.option(
            "--array",
            type=Parsed("array", array_text),
            default="",
            metavar="INDICES[%LIMIT]",
            help="Submit a job array: one task for each index, such as 0-99 or 1,3,7-20:2. At most "
            "LIMIT tasks run at the same time. Each task finds its index in WATTFOLD_ARRAY_INDEX.",
        ),
        click.option(
            "--after",
            type=Parsed("after", parse_after),
            multiple=True,
            metavar="ok|any:ID[,ID]...",
            help="Jobs that must have ended before this job starts: ok for an end with success, "
            "any for any end. May be repeated. If a job of ok ends without success, this job keeps "
            "waiting and says so.",
        ),
        click.option(
            "--reservation",
            default="",
            metavar="NAME",
            help="Reservation to run in (see `wattfold reservations`). The job runs nowhere else.",
        ),
        click.option(
            "--queue",
            default="",
            metavar="NAME",
            help="Queue of the job (see `wattfold queues`). Default: the queue `default`, if the "
            "site has one.",
        ),
        click.option(
            "--account",
            default="",
            metavar="NAME",
            help="Account (project) that the job counts for (see `wattfold accounts`). Default: "
            "your first account, if you have one.",
        ),
        click.option(
            "--mail",
            type=Parsed("events", parse_mail),
            metavar="EVENT[,EVENT]...",
            help="Send mail about these events of the job: begin, end, fail or requeue. end is "
            "any end, fail an end without success. Default: no mail.",
        ),
        click.option(
            "--mail-to",
            default="",
            metavar="ADDRESS",
            help="Address for the mail. Default: your account.",
        ),
    ):
        command = option(command)
    return command
