"""Due dates, costs and lent cores in messages, computed for the jobs that a user requests.

Most lists do not contain them, because they depend on the time and on all running jobs. The sums
over all jobs with due dates are part of `power`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from wattfold.contract.units import eur_text, span_text
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import uses_of
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.plan import Policy, Snapshot
from wattfold.coordinator.core.rules.snapshot import job_views, without_jobs
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.policies.slowdown_driven.policy import Lending
    from wattfold.coordinator.policies.training.due_outlook import Outlook, Outlooks, Used

_PLANNED = (JobState.PENDING, JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewInputs:
    """Inputs of the views in addition to the state."""

    clock: Clock
    policy: Policy
    configured_uw: int = 0
    """Budget of the configuration, which may differ from the budget in force."""
    planning: tuple[tuple[str, str], ...] = ()
    """Stated settings of the plans by key, as text."""


class LookAhead:
    """The outlook of jobs at one moment. Imports and computes only the requested parts."""

    def __init__(self, state: State, seen: Observations, setting: ViewInputs, now_ns: int) -> None:
        self._state, self._seen = state, seen
        self._setting, self._now_ns = setting, now_ns

    @cached_property
    def _snapshot(self) -> Snapshot:
        views = job_views(self._state, self._state.placed(), self._now_ns)
        return replace(without_jobs(self._state, self._now_ns), jobs=tuple(views))

    @cached_property
    def _outlooks(self) -> Outlooks:
        from wattfold.coordinator.policies.training.due_outlook import Outlooks

        return Outlooks(self._snapshot, self._setting.policy)

    @cached_property
    def _lendings(self) -> list[Lending]:
        from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven

        policy = self._setting.policy
        return policy.lendings(self._snapshot) if isinstance(policy, SlowdownDriven) else []

    def outlook(self, job: Job) -> Outlook | None:
        """Return when a job with a due date ends and what it costs; None for other jobs."""
        if job.spec.due_ns < 0 or job.state not in _PLANNED:
            return None
        views = job_views(self._state, [job], self._now_ns)
        if not views:
            return None
        return self._outlooks.of(views[0], _used(job, self._seen), job.expected_start_ns)

    def add(self, message: pb.Job, job: Job) -> None:
        """Add the outlook of a job to its message, and the cores that it lends and borrows."""
        clock, found = self._setting.clock, self.outlook(job)
        if found is not None:
            message.due.expected_end_at_s = clock.wall_s(found.ends_ns)
            message.due.at_the_earliest = found.at_the_earliest
            message.due.late_s = found.late_s
            if found.so_far_eur is not None and found.to_come_eur is not None:
                message.due.has_costs = True
                message.due.so_far_eur = found.so_far_eur
                message.due.to_come_eur = found.to_come_eur
        for one in self._lendings if job.target is not None else ():
            if job.job_id in (one.lender, one.guest):
                message.lendings.add(
                    lender_job_id=one.lender,
                    guest_job_id=one.guest,
                    node_id=one.node_id,
                    cores=one.cores,
                    until_s=clock.wall_s(one.until_ns),
                    slowdown=one.slowdown,
                    slowdown_limit=one.limit,
                )

    def statements(self, job: Job) -> list[str]:
        """Explain the outlook of a job with a due date."""
        found = self.outlook(job)
        if found is None:
            return []
        due = span_text(abs(job.spec.due_ns - self._now_ns) / 1e9)
        was = "was due" if job.spec.due_ns < self._now_ns else "is due in"
        ago = " ago" if job.spec.due_ns < self._now_ns else ""
        ends = span_text((found.ends_ns - self._now_ns) / 1e9)
        earliest = " at the earliest" if found.at_the_earliest else ""
        late = f"{span_text(found.late_s)} late" if found.late_s else "in time"
        lines = [f"It {was} {due}{ago} and is expected to end in {ends}{earliest}, {late}."]
        if found.so_far_eur is not None and found.to_come_eur is not None:
            lines.append(
                f"Energy and tardiness cost {eur_text(found.so_far_eur)} so far and are expected "
                f"to cost {eur_text(found.to_come_eur)} more."
            )
        return lines


def add_due_sums(
    message: pb.Power, state: State, seen: Observations, setting: ViewInputs, now_ns: int
) -> None:
    """Add the numbers of jobs with due dates and of delayed jobs, and the sum of their costs."""
    ahead = LookAhead(state, seen, setting, now_ns)
    for job in state.index.open.values():
        found = ahead.outlook(job) if job.spec.due_ns >= 0 else None
        if found is None:
            continue
        message.due_jobs += 1
        message.late_jobs += found.late_s > 0
        message.due_so_far_eur += found.so_far_eur or 0.0
        message.due_to_come_eur += found.to_come_eur or 0.0


def _used(job: Job, seen: Observations) -> Used:
    from wattfold.coordinator.policies.training.due_outlook import Used

    if job.started_ns < 0 and not job.attempts:
        return Used()
    uses = uses_of(job, seen)
    starts = [one.started_ns for one in job.attempts] + [job.started_ns]
    return Used(
        energy_j=sum(u.energy_uj + u.idle_energy_uj + u.gpu_energy_uj for u in uses) / 1e6,
        since_ns=min((ns for ns in starts if ns >= 0), default=-1),
    )
