"""Selection of the jobs that `cancel`, `hold`, `release` and `requeue` act on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.jobs.lists.job_tables import is_of, queue_table
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.word_lists import state_option
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

F = TypeVar("F", bound=Callable[..., Any])

LISTED_MAX = 100_000
MANY = 10
"""Selections of more jobs must be confirmed on a terminal."""

STATES = {
    f.enum_word(name, "JOB_STATE_"): state
    for name, state in pb.JobState.items()
    if state != pb.JOB_STATE_UNSPECIFIED
} | {"waiting": pb.JOB_STATE_PENDING}
"""States by the words of the command. Lists count pending jobs as waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Jobs by number, jobs that match all given properties, or both conditions together."""

    job_ids: tuple[str, ...]
    user: str
    name: str
    states: tuple[str, ...]
    older_ns: int | None
    dry_run: bool
    yes: bool

    @property
    def by_properties(self) -> bool:
        """Whether jobs are selected by more than their numbers."""
        return bool(self.user or self.name or self.states or self.older_ns is not None)

    def check(self) -> None:
        """Raise UsageError if the selection would include all jobs."""
        if not (self.job_ids or self.by_properties):
            raise click.UsageError(
                "no jobs are selected; give job IDs, or select jobs with --user, --name, --state "
                "or --older-than"
            )

    def jobs(self, client: CoordinatorClient, default: Collection[pb.JobState]) -> list[pb.Job]:
        """Return the matching jobs, oldest first.

        Jobs selected by a property are in one of the states of --state, or else in one of the
        default states. Without --user, the caller may control them.
        """
        job_ids = list(dict.fromkeys(self.job_ids))
        if not self.by_properties:
            return list(client.list_jobs(job_ids, include_ended=True, limit=LISTED_MAX).jobs)
        states = {STATES[word] for word in self.states} or set(default)
        ended = not states.isdisjoint(f.ENDED_STATES)
        answer = client.list_jobs(job_ids, include_ended=ended, limit=LISTED_MAX)
        now_s = time.time()
        matching = [job for job in answer.jobs if self._matches(job, now_s)]
        whole, parts = split_arrays(matching, states, default)
        found = [
            job
            for job in matching
            if (job.job_id in whole if job.HasField("array") else job.state in states)
        ]
        if parts:
            tasks = client.list_jobs(include_ended=ended, limit=LISTED_MAX, tasks=True).jobs
            found += [job for job in tasks if job.state in states and _array_id(job) in parts]
        return found

    def _matches(self, job: pb.Job, now_s: float) -> bool:
        if self.user and not is_of(job, self.user):
            return False
        if not self.user and job.access == pb.JOB_ACCESS_OTHER:
            return False
        # Brackets in a name match themselves.
        if self.name and not fnmatchcase(job.spec.name, self.name.replace("[", "[[]")):
            return False
        return self.older_ns is None or now_s - job.submitted_at_s > self.older_ns / 1e9


def split_arrays(
    jobs: Sequence[pb.Job], states: Collection[int], default: Collection[int]
) -> tuple[set[str], set[str]]:
    """Return the IDs of the arrays that are selected as a whole, and of those selected in part.

    A command on an array affects its tasks in the default states of the command. So the array is
    selected as a whole only if the selection contains all of these states that its tasks have.
    """
    whole, parts = set[str](), set[str]()
    for job in jobs:
        present = {count.state for count in job.array.counts}
        affected = present.intersection(default) or present
        if not job.HasField("array") or present.isdisjoint(states):
            continue
        if affected <= set(states):
            whole.add(job.job_id)
        else:
            parts.add(job.job_id)
    return whole, parts


def _array_id(job: pb.Job) -> str:
    """Return the ID of the array of a task; empty for other jobs and for arrays."""
    array_id, underscore, _ = job.job_id.partition("_")
    return array_id if underscore and not job.HasField("array") else ""


def selection_options(command: F) -> F:
    """Add the arguments and options that select jobs to a command."""
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask before many jobs are changed."),
        click.option(
            "--dry-run", is_flag=True, help="List the selected jobs and change none of them."
        ),
        click.option(
            "--older-than",
            "older_ns",
            type=DURATION_NS,
            metavar="DURATION",
            help="Minimum time since the submission of the jobs, such as 90s, 2h or 7d.",
        ),
        state_option(list(STATES), "State of the jobs. Default: the states of this command."),
        click.option(
            "--name",
            default="",
            metavar="PATTERN",
            help="Name of the jobs; * stands for any characters and ? for one character.",
        ),
        click.option(
            "--user",
            default="",
            metavar="ACCOUNT",
            help="Account of the jobs, by name or number. Default: all accounts whose jobs you may "
            "control.",
        ),
        click.argument("job_ids", metavar="[JOB]...", nargs=-1),
    ):
        command = option(command)
    return command


def tell_count(jobs: Sequence[pb.Job]) -> None:
    """Report how many jobs are selected, of how many accounts and in which states.

    An array counts as one job, in the state that lists show.
    """
    counts = Counter(f.job_state(job.state) for job in jobs)
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    users = Counter(job.user for job in jobs)
    whose = f" of {len(users)} accounts" if len(users) > 1 else ""
    matching = f"{len(jobs)} {'job matches' if len(jobs) == 1 else 'jobs match'}"
    click.echo(f"{matching}{whose}{f': {states}' if jobs else ''}", err=True)


def show_selected(session: Session, jobs: Sequence[pb.Job]) -> None:
    """List the jobs of a dry run."""
    if session.json:
        session.print_json(as_dict(pb.ListJobsResponse(jobs=jobs)))
    elif jobs:
        session.print(queue_table(jobs, now_s=time.time()))


def confirm(verb: str, count: int) -> None:
    """Ask on a terminal before many jobs are changed. Raises CliError if the user declines."""
    asks = count > MANY and sys.stdin.isatty() and sys.stderr.isatty()
    if asks and not click.confirm(f"{verb.capitalize()} these {count} jobs?", err=True):
        raise CliError("no job was changed")
