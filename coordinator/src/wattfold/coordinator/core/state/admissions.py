"""Jobs that count for the limits of users and accounts, and jobs that wait for these limits.

The first job that does not fit closes its user or account to the jobs behind it. Otherwise small
jobs would keep a large job waiting forever. Service and simulator use this module:
`core/rules/accounts/limits.py` and `simulator/engine/job_limits.py`.

In the service it is derived from the state, and not stored. All pending and placed jobs of a loaded
state are admitted, because the rule runs after each event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.account import (
    EVERYBODY,
    Account,
    Demand,
    UsageLimits,
    UserLimits,
)
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec


class Holder(NamedTuple):
    """A user or an account that has limits."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


Holders = tuple[Holder, ...]
"""The user and the account of a job, as far as they have limits."""
Limits = Mapping[Holder, UsageLimits]
"""The limits that apply to a job, by user and account."""
Turn = tuple[int, int, str]
"""Place of a job in the order of submission."""


def limits_for(
    user: str, account: str, users: Mapping[str, UserLimits], accounts: Mapping[str, Account]
) -> Limits:
    """Return the limits that apply to the jobs of a user for an account."""
    found: dict[Holder, UsageLimits] = {}
    own = users.get(user) or users.get(EVERYBODY)
    if own is not None:
        found[Holder("user", user)] = own.limits
    if account in accounts:
        found[Holder("account", account)] = accounts[account].limits
    return found


def refusal(demand: Demand, limits: Limits) -> str:
    """Return why a job with this demand can never be admitted, or an empty string."""
    for holder, those in limits.items():
        limit = those.exceeded_by(demand)
        if limit:
            return (
                f"the job may use {demand.cores} cores and {demand.power_uw / 1e6:g} W above idle "
                f"at its maximum size; {holder} may use at most {limit} at the same time"
            )
    return ""


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

    def count(self, job_id: JobId, counted: Admitted) -> None:
        """Admit a job, and add its demand to the sums of its holders."""
        self.admitted[job_id] = counted
        for holder in counted.holders:
            self.sums[holder] = self.used(holder).plus(counted.demand)

    def drop(self, job_id: JobId) -> bool:
        """Remove a job; return whether it was there. Others may have waited behind it."""
        waited = self.waiting.pop(job_id, None) is not None
        known = self.admitted.pop(job_id, None)
        if known is None:
            return waited
        for holder in known.holders:
            self.sums[holder] = self.sums[holder].plus(known.demand, -1)
        return True

    def enqueue(self, turn: Turn, holders: Holders) -> None:
        """Let a job wait for its holders, in the order of submission."""
        job_id = JobId(turn[2])
        if job_id not in self.waiting:
            self.waiting[job_id] = holders
            heapq.heappush(self.queues.setdefault(holders, []), turn)

    def admit(
        self, limits_of: Callable[[JobId], Limits], counted: Callable[[JobId], Admitted]
    ) -> tuple[list[JobId], dict[Holder, str]]:
        """Admit the waiting jobs that fit, in the order of submission.

        Returns these jobs, and the limits of the holders that are closed to the others.
        """
        admitted: list[JobId] = []
        closed: dict[Holder, str] = {}
        heads = [(turn, key) for key in [*self.queues] if (turn := self._first(key))]
        heapq.heapify(heads)
        while heads:
            turn, holders = heapq.heappop(heads)
            if any(holder in closed for holder in holders):
                continue
            job_id = JobId(turn[2])
            job = counted(job_id)
            exceeded = {
                holder: limit
                for holder, limits in limits_of(job_id).items()
                if (limit := limits.exceeded_by(self.used(holder).plus(job.demand)))
            }
            if exceeded:
                closed |= exceeded
                continue
            self.drop(job_id)
            self.count(job_id, job)
            admitted.append(job_id)
            following = self._first(holders)
            if following:
                heapq.heappush(heads, (following, holders))
        return admitted, closed

    def used(self, holder: Holder) -> Demand:
        """Return the demand of the admitted jobs of a user or an account."""
        return self.sums.get(holder, Demand())

    def _first(self, holders: Holders) -> Turn | None:
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
