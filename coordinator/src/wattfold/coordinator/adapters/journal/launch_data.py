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

from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.rules.attempt_events import resumable

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
