"""Conditions of the first start of a job: ends of other jobs, and a begin time."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import JobId


class DependencyState(enum.Enum):
    """Whether the end of a job met a dependency on it."""

    OPEN = "open"
    MET = "met"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A job that must have ended before another job starts, with ``success`` in success.

    ``settled`` is the final state once the core has deleted that job, and OPEN before.
    """

    job_id: JobId
    success: bool = False
    settled: DependencyState = DependencyState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConditions:
    """Conditions that a job must meet before policies see it. They do not apply to later attempts.

    ``begin_ns`` is in coordinator time and keeps its calendar time; -1 = none. With ``cheaper``, it
    is the time at which the energy of the job is cheapest, and not a request of its user.
    """

    after: tuple[Dependency, ...] = ()
    begin_ns: int = -1
    cheaper: bool = False

    def __bool__(self) -> bool:
        return bool(self.after) or self.begin_ns >= 0


UNCONDITIONAL = StartConditions()
