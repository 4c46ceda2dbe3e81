"""What only the start of a job needs: its environment, which may hold its user's secrets.

Also what else its processes inherit from the shell it was submitted in. It is no part of a job's
specification, so no list, log, plan or record can show it. The journal keeps it beside the events
for as long as the job may still be started, and then drops it; of a job that may be started more
than once that is until its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit
from wattfold.coordinator.core.job import Job, JobState

STARTABLE = frozenset({JobState.HELD, JobState.PENDING, JobState.STARTING})
"""States in which a process of a job may still have to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchData:
    """The environment of a job, sorted by name. Left out of its own repr, for logs and dumps."""

    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    umask: int = UMASK_DEFAULT
    limits: tuple[SoftLimit, ...] = ()


def may_start(job: Job) -> bool:
    """Whether the launch data of a job may still be needed."""
    return job.state in STARTABLE or (job.spec.restarts and not job.final)


def dump(data: LaunchData) -> str:
    """As the journal stores it."""
    limits = {limit.name: limit.soft for limit in data.limits}
    return json.dumps({"env": dict(data.env), "umask": data.umask, "limits": limits})


def load(body: str) -> LaunchData:
    """What `dump` wrote, also that of versions that stored variables alone. Raises ValueError."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"launch data is a {type(found).__name__}, not an object")
    env = found.get("env")
    # The value of a variable of that name is a text.
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
