"""Launch data of a job: its environment, which may contain secrets, and other inherited settings.

They come from the shell of the submission. They are not part of the job's specification, so no
list, log, plan or record can show them. The journal stores them separately from the events, and
deletes them when the job cannot start any more. For a job that may start several times, this is at
its end. For a job that failed after it saved a snapshot, this is when the job itself is deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from wattfold.contract.ids import JobId, array_of
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit
from wattfold.coordinator.core.model.events import ArraySubmitted, JobSubmitted
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.rules.jobs.attempt_events import resumable
from wattfold.coordinator.core.state.state import State

SUBMITTED = (JobSubmitted, ArraySubmitted)
"""Events with launch data."""
STARTABLE = frozenset({JobState.HELD, JobState.WAITING, JobState.PENDING, JobState.STARTING})
"""States in which a process of a job may still have to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchData:
    """Environment of a job, sorted by name and hidden from the repr, with umask and limits."""

    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    umask: int = UMASK_DEFAULT
    limits: tuple[SoftLimit, ...] = ()


def may_start(job: Job) -> bool:
    """Whether the launch data of a job may still be needed."""
    waits_again = job.state in STARTABLE or job.requeue is not None
    return waits_again or (job.spec.restarts and not job.final) or resumable(job)


def no_longer_needed(state: State) -> list[JobId]:
    """Return the jobs and arrays with launch data that nothing needs since the last event.

    All tasks of an array share the data that are stored under its ID.
    """
    gone = []
    for job_id in (*state.index.news, *state.index.forgotten):
        owner = array_of(job_id) or job_id
        job, array = state.jobs.get(owner), state.arrays.get(owner)
        if array is not None:
            needed_yet = tasks_may_start(state, array)
        else:
            needed_yet = job is not None and may_start(job)
        if not needed_yet:
            gone.append(owner)
    return gone


def needed(state: State) -> list[JobId]:
    """Return the jobs and arrays with launch data that may still be needed."""
    jobs = [job_id for job_id, job in state.jobs.items() if may_start(job)]
    return [*jobs, *(one.array_id for one in state.arrays.values() if tasks_may_start(state, one))]


def tasks_may_start(state: State, array: JobArray) -> bool:
    """Whether the launch data of an array may still be needed."""
    if array.left:
        return True
    index = state.index
    open_tasks = index.tasks(array.array_id).values()
    ended = (state.jobs[job_id] for job_id in index.ended_tasks(array.array_id))
    return any(map(may_start, open_tasks)) or any(map(resumable, ended))


def dump(data: LaunchData) -> str:
    """Return the text that the journal stores."""
    limits = {limit.name: limit.soft for limit in data.limits}
    return json.dumps({"env": dict(data.env), "umask": data.umask, "limits": limits})


def load(body: str) -> LaunchData:
    """Read the text of `dump`, also of versions that stored only variables. Raises ValueError."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"launch data is a {type(found).__name__}, not an object")
    env = found.get("env")
    # A variable named "env" has a string as its value.
    return _load(found, env) if isinstance(env, dict) else LaunchData(env=_sorted(found))


def _load(found: dict[str, Any], env: dict[str, str]) -> LaunchData:
    limits = found.get("limits", {})
    return LaunchData(
        env=_sorted(env),
        umask=found.get("umask", UMASK_DEFAULT),
        limits=tuple(SoftLimit(name=name, soft=soft) for name, soft in limits.items()),
    )


def _sorted(env: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(env.items()))
