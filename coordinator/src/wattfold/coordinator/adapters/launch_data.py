"""What only the start of a job needs: its environment, which may hold its user's secrets.

It is no part of a job's specification, so no list, log, plan or record can show it. The journal
keeps it beside the events for as long as the job may still be started, and then drops it; of a
job that may be started more than once that is until its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from wattfold.coordinator.core.job import Job, JobState

STARTABLE = frozenset({JobState.HELD, JobState.PENDING, JobState.STARTING})
"""States in which a process of a job may still have to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchData:
    """The environment of a job, sorted by name. Left out of its own repr, for logs and dumps."""

    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def may_start(job: Job) -> bool:
    """Whether the launch data of a job may still be needed."""
    return job.state in STARTABLE or (job.spec.restarts and not job.final)


def dump(data: LaunchData) -> str:
    """As the journal stores it."""
    return json.dumps(dict(data.env))


def load(body: str) -> LaunchData:
    """What `dump` wrote. Raises ValueError."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"launch data is a {type(found).__name__}, not an object")
    return LaunchData(env=tuple(sorted(found.items())))
