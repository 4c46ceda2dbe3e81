"""Jobs that count for the limits of users and accounts, and jobs that wait for these limits.

Derived from the state, and not stored: `core/rules/accounts/limits.py` has the rule. All pending
and placed jobs of a loaded state are admitted, because the rule runs after each event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.account import Demand
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobSpec, JobState


class Holder(NamedTuple):
    """A user or an account that has limits."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


Holders = tuple[Holder, ...]
"""The user and the account of a job, as far as they have limits."""
Turn = tuple[int, int, str]
"""Place of a job in the order of submission."""


def turn_of(job: Job) -> Turn:
    """Return the place of a job in the order of submission. A longer number is a later one."""
    return job.submitted_ns, len(job.job_id), job.job_id


class Admitted(NamedTuple):
    """A job that counts for limits: its submission when it was counted, and its demand."""

    spec: JobSpec | None = None
    holders: Holders = ()
    demand: Demand = Demand()


@dataclass(slots=True)
class Admissions:
    """Admitted jobs with their sums, and the queues of the others."""

    admitted: dict[JobId, Admitted] = field(default_factory=dict)
    sums: dict[Holder, Demand] = field(default_factory=dict)
    waiting: dict[JobId, Holders] = field(default_factory=dict)
    queues: dict[Holders, list[Turn]] = field(default_factory=dict)
    """Turns of the waiting jobs of the same holders, as a heap. It may contain other jobs."""
    as_of: tuple[int, int] = (0, -1)
    """Changes of limits, and changes of nodes, that the sums are based on."""

    @classmethod
    def of(cls, jobs: Iterable[Job], limit_changes: int) -> Admissions:
        """Admit the pending and placed jobs of a loaded state. Their demands are not known yet."""
        admitted = {job.job_id: Admitted() for job in jobs if is_active(job)}
        return cls(admitted=admitted, as_of=(limit_changes, -1))

    def clear(self) -> None:
        """Forget all jobs."""
        for part in (self.admitted, self.sums, self.waiting, self.queues):
            part.clear()

    def count(self, job: Job, holders: Holders, demand: Demand) -> None:
        """Admit a job, and add its demand to the sums of its holders."""
        self.admitted[job.job_id] = Admitted(job.spec, holders, demand)
        for holder in holders:
            self.sums[holder] = self.sums.get(holder, Demand()).plus(demand)

    def drop(self, job_id: JobId) -> bool:
        """Remove a job; return whether it was there. Others may have waited behind it."""
        waited = self.waiting.pop(job_id, None) is not None
        known = self.admitted.pop(job_id, None)
        if known is None:
            return waited
        for holder in known.holders:
            self.sums[holder] = self.sums[holder].plus(known.demand, -1)
        return True

    def enqueue(self, job: Job, holders: Holders) -> None:
        """Let a job wait for its holders, in the order of submission."""
        if job.job_id not in self.waiting:
            self.waiting[job.job_id] = holders
            heapq.heappush(self.queues.setdefault(holders, []), turn_of(job))

    def first(self, holders: Holders) -> Turn | None:
        """Return the turn of the first waiting job of these holders."""
        queue = self.queues.get(holders, [])
        while queue and self.waiting.get(JobId(queue[0][2])) != holders:
            heapq.heappop(queue)
        if not queue:
            self.queues.pop(holders, None)
            return None
        return queue[0]


def is_active(job: Job) -> bool:
    """Whether a job counts for limits: it runs, or policies may start it."""
    return job.state is JobState.PENDING or job.state in PLACED_STATES
